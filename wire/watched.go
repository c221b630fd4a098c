//go:build !race

package wire

func sees([]byte) {}

func fills([]byte) {}
