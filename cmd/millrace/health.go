package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/controller/config"
)

// health asks one broker whether it is ready: it must answer ApiVersions with a
// finalized metadata.version, and know in Metadata at least one broker and a
// controller.
func (p *program) health(ctx context.Context, f flags, bootstrap string, timeout time.Duration) error {
	if bootstrap == "" {
		conf, err := p.configuration(f)
		if err != nil {
			return err
		}
		bootstrap = address(conf.static)
	} else if _, _, err := net.SplitHostPort(bootstrap); err != nil {
		return usageError{fmt.Errorf("--bootstrap-server %s: expected host:port", bootstrap)}
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := probe(ctx, bootstrap); err != nil {
		// The connection's deadline may pass before the context's is noticed.
		if errors.Is(ctx.Err(), context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
			err = fmt.Errorf("no answer within %v", timeout)
		}
		return fmt.Errorf("%s is not ready: %w", bootstrap, err)
	}
	_, err := fmt.Fprintf(p.stdout, "%s is ready\n", bootstrap)
	return err
}

// address is where a client on this machine reaches the broker: its first
// listener that is not the controller's.
func address(static *config.Static) string {
	for _, l := range static.Listeners() {
		if l.Controller {
			continue
		}
		host := l.Host
		switch host {
		case "", "0.0.0.0":
			host = "127.0.0.1"
		case "::":
			host = "::1"
		}
		return net.JoinHostPort(host, strconv.Itoa(l.Port))
	}
	return "127.0.0.1:9092"
}

func probe(ctx context.Context, address string) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return err
		}
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()

	versions := kmsg.NewPtrApiVersionsRequest()
	versions.Version = 3
	versions.ClientSoftwareName, versions.ClientSoftwareVersion = "millrace-health", "1"
	resp, err := ask(conn, versions, 1)
	if err != nil {
		return err
	}
	v := resp.(*kmsg.ApiVersionsResponse)
	if err := kerr.ErrorForCode(v.ErrorCode); err != nil {
		return fmt.Errorf("ApiVersions: %w", err)
	}
	finalized := false
	for _, feature := range v.FinalizedFeatures {
		finalized = finalized || feature.Name == "metadata.version"
	}
	if !finalized {
		return errors.New("it has no metadata.version yet")
	}

	metadata := kmsg.NewPtrMetadataRequest()
	metadata.Version = 9
	metadata.Topics = []kmsg.MetadataRequestTopic{}
	if resp, err = ask(conn, metadata, 2); err != nil {
		return err
	}
	m := resp.(*kmsg.MetadataResponse)
	if len(m.Brokers) == 0 || m.ControllerID < 0 {
		return fmt.Errorf("its metadata names %d brokers and controller %d", len(m.Brokers), m.ControllerID)
	}
	return nil
}

// maxAnswer bounds an answer to health's small questions.
const maxAnswer = 1 << 20

// ask sends one request and reads its answer.
func ask(conn net.Conn, req kmsg.Request, correlation int32) (kmsg.Response, error) {
	name := kmsg.NameForKey(req.Key())
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID("millrace-health")).AppendRequest(nil, req, correlation)
	if _, err := conn.Write(frame); err != nil {
		return nil, fmt.Errorf("sending %s: %w", name, err)
	}
	var head [8]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return nil, fmt.Errorf("reading the answer to %s: %w", name, err)
	}
	size := binary.BigEndian.Uint32(head[:4])
	if size < 4 || size > maxAnswer {
		return nil, fmt.Errorf("the answer to %s announces %d bytes", name, size)
	}
	if got := int32(binary.BigEndian.Uint32(head[4:])); got != correlation {
		return nil, fmt.Errorf("the answer to %s has correlation id %d, not %d", name, got, correlation)
	}
	body := make([]byte, size-4)
	if _, err := io.ReadFull(conn, body); err != nil {
		return nil, fmt.Errorf("reading the answer to %s: %w", name, err)
	}
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	// Answers of flexible versions have tags in their header, but those to
	// ApiVersions (KIP-511).
	if req.IsFlexible() && req.Key() != kmsg.ApiVersions.Int16() {
		if len(body) == 0 || body[0] != 0 {
			return nil, fmt.Errorf("the answer to %s has a header that is not understood", name)
		}
		body = body[1:]
	}
	if err := resp.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("decoding the answer to %s: %w", name, err)
	}
	return resp, nil
}
