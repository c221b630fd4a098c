//go:build !race

package broker

const raceAllocations = 0
