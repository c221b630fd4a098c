// Package run leads the clients of the compatibility suite through the scenario (scenario.txt) over the agent protocol
// (PROTOCOL.md) and checks what came of it.
//
// It judges a broker by what clients see: it speaks to the broker itself only to stand in for a call that a client does
// not have, and to look at the batches that a client has written. It promises that content is compared byte for byte and
// that a step a client cannot do is named as such, never counted as passed.
//
// The slow tests, which need installed clients and a broker, are behind the build tag `compat`.
package run
