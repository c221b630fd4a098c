package main

// spareHeap is never written to, so that it takes no memory; Go's collector counts it.
// It looks for garbage whenever the heap has doubled, and a small broker's is two or
// three megabytes: under load it would look thirty times a second, each time stop
// everything for a moment, and every other time empty the pools. With this there are
// some spareBytes more of garbage before it does.
var spareHeap = make([]byte, spareBytes)

const spareBytes = 8 << 20
