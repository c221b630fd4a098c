//go:build !linux

package wire

func mapBytes(int) []byte { return nil }

func unmapBytes([]byte) {}

func discardBytes([]byte, int) {}
