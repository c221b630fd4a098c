package main

import (
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/controller/config"
)

// answering is a listener that reads one request after the other and answers
// each with the next of the given frames' bodies; then it closes.
func answering(t *testing.T, bodies ...[]byte) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		for _, body := range bodies {
			var size [4]byte
			if _, err := io.ReadFull(conn, size[:]); err != nil {
				return
			}
			frame := make([]byte, binary.BigEndian.Uint32(size[:]))
			if _, err := io.ReadFull(conn, frame); err != nil {
				return
			}
			out := binary.BigEndian.AppendUint32(nil, uint32(4+len(body)))
			out = append(out, frame[4:8]...) // the correlation id
			if _, err := conn.Write(append(out, body...)); err != nil {
				return
			}
		}
	}()
	return l.Addr().String()
}

func TestHealthOfBrokersThatAreNotReady(t *testing.T) {
	versions := func(features ...string) []byte {
		r := kmsg.NewPtrApiVersionsResponse()
		r.Version = 3
		for _, name := range features {
			r.FinalizedFeatures = append(r.FinalizedFeatures, kmsg.ApiVersionsResponseFinalizedFeature{Name: name, MaxVersionLevel: 1})
		}
		return r.AppendTo(nil)
	}
	refused := kmsg.NewPtrApiVersionsResponse()
	refused.Version, refused.ErrorCode = 3, 35
	metadata := func(controller int32, brokers int) []byte {
		r := kmsg.NewPtrMetadataResponse()
		r.Version, r.ControllerID = 9, controller
		r.Brokers = make([]kmsg.MetadataResponseBroker, brokers)
		return append([]byte{0}, r.AppendTo(nil)...)
	}
	ready := versions("group.version", "metadata.version")
	for _, c := range []struct {
		name   string
		bodies [][]byte
		want   string // in the error; empty: ready
	}{
		{"ready", [][]byte{ready, metadata(1, 1)}, ""},
		{"no features", [][]byte{versions()}, "it has no metadata.version yet"},
		{"an error", [][]byte{refused.AppendTo(nil)}, "ApiVersions: UNSUPPORTED_VERSION"},
		{"closes", nil, "reading the answer to ApiVersions"},
		{"closes later", [][]byte{ready}, "reading the answer to Metadata"},
		{"no controller", [][]byte{ready, metadata(-1, 1)}, "1 brokers and controller -1"},
		{"no brokers", [][]byte{ready, metadata(1, 0)}, "0 brokers and controller 1"},
		{"tags in the header", [][]byte{ready, {1, 0, 0}}, "header that is not understood"},
		{"nonsense", [][]byte{{0, 0, 0xff}}, "decoding the answer to ApiVersions"},
	} {
		address := answering(t, c.bodies...)
		code, stdout, stderr := try(t, neverRun(t), nil, "health", "--bootstrap", address)
		if c.want == "" {
			if code != 0 || stdout != address+" is ready\n" {
				t.Errorf("%s: code %d, %q, %q", c.name, code, stdout, stderr)
			}
			continue
		}
		if code != exitFailed || stdout != "" || !strings.Contains(stderr, address+" is not ready: ") || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: code %d, %q, %q", c.name, code, stdout, stderr)
		}
	}
}

func TestHealthDoesNotWaitForEver(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	code, _, stderr := try(t, neverRun(t), nil, "health", "--bootstrap", l.Addr().String(), "--timeout", "50ms")
	if code != exitFailed || !strings.Contains(stderr, "is not ready: no answer within 50ms") {
		t.Errorf("code %d, %q", code, stderr)
	}
}

func TestHealthRefusesHugeAnswers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		conn.Write([]byte{0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1})
		io.Copy(io.Discard, conn)
	}()
	code, _, stderr := try(t, neverRun(t), nil, "health", "--bootstrap", l.Addr().String())
	if code != exitFailed || !strings.Contains(stderr, "announces 2147483647 bytes") {
		t.Errorf("code %d, %q", code, stderr)
	}
}

func TestAddressOfTheConfiguredBroker(t *testing.T) {
	for listeners, want := range map[string]string{
		"":                        "127.0.0.1:9092",
		"PLAINTEXT://:1234":       "127.0.0.1:1234",
		"PLAINTEXT://0.0.0.0:1":   "127.0.0.1:1",
		"PLAINTEXT://[::]:1":      "[::1]:1",
		"PLAINTEXT://host:1":      "host:1",
		"C://:5,PLAINTEXT://:666": "127.0.0.1:666",
	} {
		props := map[string]string{}
		if listeners != "" {
			props["listeners"] = listeners
		}
		if strings.HasPrefix(listeners, "C:") {
			props["controller.listener.names"] = "C"
		}
		static, _, err := config.ParseStatic(props)
		if err != nil {
			t.Fatal(err)
		}
		if got := address(static); got != want {
			t.Errorf("%s: %s, want %s", listeners, got, want)
		}
	}
}
