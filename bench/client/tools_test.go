package client

import "testing"

func TestToolOutput(t *testing.T) {
	n, rate, err := producerRate("5001 records sent, 1000.2 records/sec (0.98 MB/sec), 1.0 ms avg latency, 210.0 ms max latency.\n" +
		"20000 records sent, 15420.200463 records/sec (15.06 MB/sec), 41.20 ms avg latency, 300.00 ms max latency, 30 ms 50th, 90 ms 95th, 120 ms 99th, 130 ms 99.9th.\n")
	if err != nil || n != 20000 || rate != 15420.200463 {
		t.Errorf("producer: %d, %v, %v", n, rate, err)
	}
	n, rate, err = consumerRate("WARN something\nstart.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec\n" +
		"2026-11-29 10:00:00:000, 2026-11-29 10:00:01:000, 19.5312, 15.6, 20001, 16000.0, 600, 400, 48.8, 50002.5\n")
	if err != nil || n != 20001 || rate != 50002.5 {
		t.Errorf("consumer: %d, %v, %v", n, rate, err)
	}
	for _, out := range []string{"", "start.time\n", "start.time, end.time\n1, 2\n"} {
		if _, _, err := consumerRate(out); err == nil {
			t.Errorf("%q is read as a result", out)
		}
	}
	if _, _, err := producerRate("5001 records sent, 1000.2 records/sec (0.98 MB/sec), 1.0 ms avg latency, 210.0 ms max latency.\n"); err == nil {
		t.Error("a running total is read as the result")
	}
}
