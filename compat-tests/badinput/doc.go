// Package badinput sends the real binary what no client sends: frames that lie
// about their length, counts no frame could hold, corrupt batches, compression
// bombs, half requests, thousands of connections, readers that never read; and
// lets its disk run full.
//
// It speaks bytes and knows nothing of the broker's code. After each kind of
// harm it holds the broker to the same promises: every bad frame is answered as
// Kafka answers it or its connection is closed; the process lives and has not
// panicked; a normal client is served promptly; memory stayed within the
// configured budget and a fixed allowance; the log got at most one line of each
// kind a second; and SIGTERM ends it with exit code 0.
//
// The tests, which need the built binary, are behind the build tag `compat`; they
// read /proc and mount small disks, so Linux is their home.
package badinput
