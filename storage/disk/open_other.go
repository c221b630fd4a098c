//go:build !linux

package disk

// unnoted opens a file without its reads being noted in it, where the system can.
const unnoted = 0
