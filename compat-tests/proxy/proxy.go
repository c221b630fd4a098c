// Package proxy stands between a Kafka client and a broker and spoils one record on its way to the client, with counts,
// lengths and CRC made right again: no client and no protocol check can notice, only a comparison with what was sent.
// That is how the compatibility scenario is shown to notice.
//
// It understands of the protocol only what it must: it rewrites the addresses that brokers tell, so that clients come back
// through it, and it takes apart uncompressed batches in Fetch responses. Everything else passes as it is.
package proxy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxFrame bounds a frame's length: what a client asks to fetch, and much more.
const maxFrame = 128 << 20

// Options of a proxy.
type Options struct {
	Upstream string            // a broker's address
	Fault    Fault             // what to do to one record
	Topics   func(string) bool // which topics to spoil; nil means all
}

// Proxy listens on loopback until it is closed.
type Proxy struct {
	topics func(string) bool
	fault  Fault
	addr   string

	mu      sync.Mutex
	closed  bool
	doors   map[string]*door // by the broker's address
	conns   map[net.Conn]bool
	names   map[[16]byte]string // topics by id
	seen    int                 // batches
	chosen  *place
	did     string
	errs    []error
	running sync.WaitGroup
}

// door is where clients come in for one broker.
type door struct {
	listener net.Listener
	upstream string
}

// Start listens on a free port of 127.0.0.1.
func Start(o Options) (*Proxy, error) {
	p := &Proxy{topics: o.Topics, fault: o.Fault, doors: make(map[string]*door), conns: make(map[net.Conn]bool), names: make(map[[16]byte]string)}
	addr, err := p.door(o.Upstream)
	if err != nil {
		return nil, err
	}
	p.addr = addr
	return p, nil
}

// Addr is the address for clients.
func (p *Proxy) Addr() string { return p.addr }

// Planted says what was done to which record, or "" if nothing was.
func (p *Proxy) Planted() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.did
}

// Close ends all connections and returns what went wrong in the proxy itself.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	for _, d := range p.doors {
		d.listener.Close()
	}
	for c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.running.Wait()
	return errors.Join(p.errs...)
}

// door returns the address by which clients reach a broker through the proxy, opening it on first use.
func (p *Proxy) door(upstream string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d := p.doors[upstream]; d != nil {
		return d.listener.Addr().String(), nil
	}
	if p.closed {
		return "", net.ErrClosed
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("listen for %s: %w", upstream, err)
	}
	d := &door{l, upstream}
	p.doors[upstream] = d
	p.running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.running.Go(func() { p.serve(c, d.upstream) })
		}
	})
	return l.Addr().String(), nil
}

func (p *Proxy) track(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.conns[c] = true
	}
	return !p.closed
}

func (p *Proxy) untrack(c net.Conn) {
	c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

// call is a request on its way: what is needed to read its response.
type call struct{ key, version int16 }

// serve carries one client connection.
func (p *Proxy) serve(client net.Conn, upstream string) {
	defer p.untrack(client)
	if !p.track(client) {
		return
	}
	broker, err := net.Dial("tcp", upstream)
	if err != nil {
		return // the client sees a closed connection, as it would without the proxy
	}
	defer p.untrack(broker)
	if !p.track(broker) {
		return
	}
	calls := make(chan call, 1<<12) // answers come in the order of the requests
	var back sync.WaitGroup
	back.Go(func() {
		if err := p.answers(client, broker, calls); err != nil {
			p.mu.Lock()
			p.errs = append(p.errs, err)
			p.mu.Unlock()
		}
		client.Close()
		broker.Close()
	})
	for {
		frame, err := readFrame(client)
		if err != nil || len(frame) < 12 {
			break
		}
		c := call{int16(binary.BigEndian.Uint16(frame[4:])), int16(binary.BigEndian.Uint16(frame[6:]))}
		if c.key != int16(kmsg.Produce) || !unanswered(frame, c.version) {
			calls <- c
		}
		if _, err := broker.Write(frame); err != nil {
			break
		}
	}
	close(calls)
	broker.Close()
	back.Wait()
}

// unanswered says whether a Produce frame has acks=0, to which no response comes.
func unanswered(frame []byte, version int16) bool {
	req := kmsg.NewPtrProduceRequest()
	req.Version = version
	body, ok := skipRequestHeader(frame[4:], req.IsFlexible())
	return ok && req.ReadFrom(body) == nil && req.Acks == 0
}

func skipRequestHeader(b []byte, flexible bool) ([]byte, bool) {
	if len(b) < 10 {
		return nil, false
	}
	n := int(int16(binary.BigEndian.Uint16(b[8:])))
	b = b[10:]
	if n > 0 {
		if len(b) < n {
			return nil, false
		}
		b = b[n:]
	}
	if !flexible {
		return b, true
	}
	return skipTags(b)
}

func skipTags(b []byte) ([]byte, bool) {
	count, n := binary.Uvarint(b)
	if n <= 0 {
		return nil, false
	}
	b = b[n:]
	for range count {
		_, n := binary.Uvarint(b) // the tag
		if n <= 0 {
			return nil, false
		}
		size, m := binary.Uvarint(b[n:])
		if m <= 0 || uint64(len(b)-n-m) < size {
			return nil, false
		}
		b = b[n+m+int(size):]
	}
	return b, true
}

// readFrame returns a frame with its length field.
func readFrame(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxFrame {
		return nil, fmt.Errorf("frame of %d bytes", n)
	}
	frame := make([]byte, 4+n)
	copy(frame, size[:])
	_, err := io.ReadFull(r, frame[4:])
	return frame, err
}

// answers passes responses on until either side closes. An error is the proxy's own: it could not read a response.
func (p *Proxy) answers(client, broker net.Conn, calls <-chan call) error {
	for {
		frame, err := readFrame(broker)
		if err != nil {
			return nil
		}
		c, ok := <-calls
		if !ok {
			return nil
		}
		frame, err = p.rewrite(frame, c)
		if err != nil {
			return fmt.Errorf("response of API %d v%d: %w", c.key, c.version, err)
		}
		if _, err := client.Write(frame); err != nil {
			return nil
		}
	}
}

// rewrite changes the responses that tell addresses or carry records.
func (p *Proxy) rewrite(frame []byte, c call) ([]byte, error) {
	resp := kmsg.ResponseForKey(c.key)
	switch resp.(type) {
	case *kmsg.MetadataResponse, *kmsg.FindCoordinatorResponse, *kmsg.DescribeClusterResponse, *kmsg.FetchResponse, *kmsg.ProduceResponse:
	default:
		return frame, nil
	}
	if c.version > resp.MaxVersion() {
		return nil, errors.New("a version that the proxy cannot read")
	}
	resp.SetVersion(c.version)
	head := 8
	if resp.IsFlexible() {
		rest, ok := skipTags(frame[8:])
		if !ok {
			return nil, errors.New("its header cannot be read")
		}
		head = len(frame) - len(rest)
	}
	if err := resp.ReadFrom(frame[head:]); err != nil {
		return nil, err
	}
	changed := true
	var err error
	switch r := resp.(type) {
	case *kmsg.MetadataResponse:
		for i := range r.Brokers {
			err = errors.Join(err, p.readdress(&r.Brokers[i].Host, &r.Brokers[i].Port))
		}
		p.mu.Lock()
		for _, t := range r.Topics {
			if t.Topic != nil {
				p.names[t.TopicID] = *t.Topic
			}
		}
		p.mu.Unlock()
	case *kmsg.FindCoordinatorResponse:
		if r.ErrorCode == 0 && r.Host != "" {
			err = p.readdress(&r.Host, &r.Port)
		}
		for i := range r.Coordinators {
			if r.Coordinators[i].ErrorCode == 0 {
				err = errors.Join(err, p.readdress(&r.Coordinators[i].Host, &r.Coordinators[i].Port))
			}
		}
	case *kmsg.DescribeClusterResponse:
		for i := range r.Brokers {
			err = errors.Join(err, p.readdress(&r.Brokers[i].Host, &r.Brokers[i].Port))
		}
	case *kmsg.ProduceResponse:
		for i := range r.Brokers {
			err = errors.Join(err, p.readdress(&r.Brokers[i].Host, &r.Brokers[i].Port))
		}
		changed = len(r.Brokers) > 0
	case *kmsg.FetchResponse:
		for i := range r.Brokers {
			err = errors.Join(err, p.readdress(&r.Brokers[i].Host, &r.Brokers[i].Port))
		}
		var spoiled bool
		spoiled, spoilErr := p.spoilAll(r)
		err = errors.Join(err, spoilErr)
		changed = spoiled || len(r.Brokers) > 0
	}
	if err != nil || !changed {
		return frame, err
	}
	out := resp.AppendTo(append([]byte(nil), frame[:head]...))
	binary.BigEndian.PutUint32(out, uint32(len(out)-4))
	return out, nil
}

// spoilAll looks for the place of the fault in a Fetch response.
func (p *Proxy) spoilAll(r *kmsg.FetchResponse) (changed bool, err error) {
	if p.fault == Honest {
		return false, nil
	}
	for i := range r.Topics {
		t := &r.Topics[i]
		name := t.Topic
		if name == "" {
			p.mu.Lock()
			name = p.names[t.TopicID]
			p.mu.Unlock()
		}
		if p.topics != nil && !p.topics(name) {
			continue
		}
		for j := range t.Partitions {
			part := &t.Partitions[j]
			if part.ErrorCode != 0 || len(part.RecordBatches) == 0 {
				continue
			}
			batches, err := p.spoil(name, part.Partition, part.RecordBatches)
			if err != nil {
				return changed, fmt.Errorf("%s-%d: %w", name, part.Partition, err)
			}
			part.RecordBatches = batches
			changed = true
		}
	}
	return changed, nil
}

// readdress puts the proxy's own address in place of a broker's.
func (p *Proxy) readdress(host *string, port *int32) error {
	addr, err := p.door(net.JoinHostPort(*host, strconv.Itoa(int(*port))))
	if err != nil {
		return err
	}
	h, text, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	*host, *port = h, int32(n)
	return nil
}
