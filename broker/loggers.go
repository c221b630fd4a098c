package broker

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap/zapcore"
)

// A broker's loggers are a config resource of their own (KIP-412). Kafka has
// one for each of its classes; Millrace has one, root, whose level is that of
// the whole log.

const rootLogger = "root"

// levels are Kafka's names for the levels that zap has, least severe first.
var levels = []struct {
	name  string
	level zapcore.Level
}{
	{"TRACE", zapcore.DebugLevel}, {"DEBUG", zapcore.DebugLevel}, {"INFO", zapcore.InfoLevel},
	{"WARN", zapcore.WarnLevel}, {"ERROR", zapcore.ErrorLevel}, {"FATAL", zapcore.FatalLevel},
}

func (b *Broker) loggerLevel() string {
	at := b.level.Level()
	name := "INFO"
	for _, l := range levels {
		if l.level == at {
			name = l.name
		}
	}
	return name
}

// alterLogger changes the level of this broker's logger; the answer is an
// error code and a message.
func (b *Broker) alterLogger(r kmsg.IncrementalAlterConfigsRequestResource, validateOnly bool) (int16, string) {
	if r.ResourceName != itoa(b.nodeID) {
		return kerr.InvalidRequest.Code, "Unexpected broker id, expected " + itoa(b.nodeID) + ", but received " + r.ResourceName
	}
	set := b.level.Level()
	for i, cfg := range r.Configs {
		if slices.ContainsFunc(r.Configs[:i], func(c kmsg.IncrementalAlterConfigsRequestResourceConfig) bool { return c.Name == cfg.Name }) {
			return kerr.InvalidRequest.Code, "Error due to duplicate config keys"
		}
		if cfg.Value == nil && cfg.Op != kmsg.IncrementalAlterConfigOpDelete {
			return kerr.InvalidRequest.Code, "Null value not supported for : " + cfg.Name
		}
	}
	for _, cfg := range r.Configs {
		switch cfg.Op {
		case kmsg.IncrementalAlterConfigOpSet:
		case kmsg.IncrementalAlterConfigOpDelete:
			if cfg.Name == rootLogger {
				return kerr.InvalidRequest.Code, "Removing the log level of the root logger is not allowed"
			}
			return kerr.InvalidConfig.Code, "Logger " + cfg.Name + " does not exist!"
		default:
			return kerr.InvalidRequest.Code, "Only SET and DELETE are allowed for the log level of logger " + cfg.Name
		}
		if cfg.Name != rootLogger {
			return kerr.InvalidConfig.Code, "Logger " + cfg.Name + " does not exist!"
		}
		known := false
		for _, l := range levels {
			if l.name == *cfg.Value {
				set, known = l.level, true
			}
		}
		if !known {
			return kerr.InvalidConfig.Code, "Cannot set the log level of logger " + cfg.Name + " as it is not a supported log level"
		}
	}
	if !validateOnly {
		b.level.SetLevel(set)
	}
	return 0, ""
}
