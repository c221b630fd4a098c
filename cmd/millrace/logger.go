package main

import (
	"fmt"
	"os"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/term"
)

// logger writes to standard error: lines to read on a terminal, JSON otherwise.
func (p *program) logger(level setting) (*zap.Logger, zap.AtomicLevel, error) {
	at := zap.NewAtomicLevel()
	switch level.value {
	case "debug", "info", "warn", "error":
		if err := at.UnmarshalText([]byte(level.value)); err != nil {
			return nil, at, usageError{fmt.Errorf("%s: %w", level, err)}
		}
	default:
		return nil, at, usageError{fmt.Errorf("%s: expected debug, info, warn or error", level)}
	}
	c := zapcore.EncoderConfig{
		TimeKey: "time", LevelKey: "level", NameKey: "logger", MessageKey: "message",
		EncodeTime:     zapcore.RFC3339NanoTimeEncoder,
		EncodeLevel:    zapcore.LowercaseLevelEncoder,
		EncodeDuration: zapcore.StringDurationEncoder,
		EncodeName:     zapcore.FullNameEncoder,
	}
	encoder := zapcore.NewJSONEncoder(c)
	if f, ok := p.stderr.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		c.EncodeTime = zapcore.TimeEncoderOfLayout("15:04:05.000")
		c.EncodeLevel = zapcore.CapitalColorLevelEncoder
		c.ConsoleSeparator = " "
		encoder = zapcore.NewConsoleEncoder(c)
	}
	return zap.New(zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(p.stderr)), at)), at, nil
}
