//go:build race

package broker

// raceAllocations is what the race detector adds to a walk.
const raceAllocations = 10
