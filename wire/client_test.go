package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// nameHandler answers Metadata with the topics that were asked, and Fetch with
// as many bytes as the request's MaxBytes.
func nameHandler(t *testing.T) fake {
	return fake{handle: func(_ context.Context, r *Request) Reply {
		req, err := Decode(r)
		if err != nil {
			t.Errorf("decoding: %v", err)
			return Reply{Close: true}
		}
		switch req := req.(type) {
		case *kmsg.MetadataRequest:
			resp := req.ResponseKind().(*kmsg.MetadataResponse)
			for _, topic := range req.Topics {
				rt := kmsg.NewMetadataResponseTopic()
				rt.Topic = topic.Topic
				resp.Topics = append(resp.Topics, rt)
			}
			return Reply{Body: Encode(resp)}
		case *kmsg.FetchRequest:
			p := NewFetchPartition(0)
			p.Records = bytes.Repeat([]byte("r"), int(req.MaxBytes))
			return Reply{Body: EncodeFetch(&FetchResponse{Topics: []FetchTopic{{Partitions: []FetchPartition{p}}}}, r.Version)}
		case *kmsg.ProduceRequest:
			return Reply{None: true}
		}
		return Reply{Close: true}
	}}
}

func metadataFor(version int16, name string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.Version = version
	req.Topics = []kmsg.MetadataRequestTopic{{Topic: &name}}
	return req
}

func (w *world) client(o ClientOptions) *Client {
	w.t.Helper()
	o.Dial = w.net.Dialer("other")
	c, err := Dial(context.Background(), "broker:9093", o)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func TestClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ServerOptions{Handler: nameHandler(t)})
		defer w.close()
		c := w.client(ClientOptions{ClientID: "broker-1"})
		defer c.Close()
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				name := fmt.Sprint("topic-", i)
				resp, err := c.Do(context.Background(), metadataFor(int16(i%13), name))
				if err != nil {
					t.Errorf("Do: %v", err)
					return
				}
				topics := resp.(*kmsg.MetadataResponse).Topics
				if len(topics) != 1 || *topics[0].Topic != name {
					t.Errorf("asked for %s, got %v", name, topics)
				}
			})
		}
		for i := range 8 {
			wg.Go(func() {
				req := kmsg.NewPtrFetchRequest()
				req.Version = int16(12 + i%7)
				req.MaxBytes = int32(1) << (i * 3)
				err := c.DoInPlace(context.Background(), req, func(r kmsg.Response) error {
					b := r.(*kmsg.FetchResponse).Topics[0].Partitions[0].RecordBatches
					if len(b) != int(req.MaxBytes) || bytes.Count(b, []byte("r")) != len(b) {
						return fmt.Errorf("got %d bytes, want %d", len(b), req.MaxBytes)
					}
					return nil
				})
				if err != nil {
					t.Errorf("DoInPlace: %v", err)
				}
			})
		}
		wg.Wait()
		produce := kmsg.NewPtrProduceRequest()
		produce.Version = 9
		if err := c.Send(context.Background(), produce); err != nil {
			t.Errorf("Send: %v", err)
		}
		if _, err := c.Do(context.Background(), metadataFor(12, "x")); err != nil {
			t.Errorf("Do after Send: %v", err)
		}
		if c.Err() != nil {
			t.Errorf("Err: %v", c.Err())
		}
	})
}

// A context that ends gives up the answer, not the connection.
func TestClientContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := nameHandler(t)
		names := h.handle
		h.handle = func(ctx context.Context, r *Request) Reply {
			time.Sleep(time.Second)
			return names(ctx, r)
		}
		w := newWorld(t, ServerOptions{Handler: h})
		defer w.close()
		c := w.client(ClientOptions{})
		defer c.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
		defer cancel()
		if _, err := c.Do(ctx, metadataFor(12, "a")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Do: %v", err)
		}
		resp, err := c.Do(context.Background(), metadataFor(12, "b"))
		if err != nil || *resp.(*kmsg.MetadataResponse).Topics[0].Topic != "b" {
			t.Errorf("Do after one was given up: %v, %v", resp, err)
		}
		for range 50 {
			if _, err := c.Do(ctx, metadataFor(12, "c")); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("Do with a context that is done: %v", err)
			}
		}
		if err := c.Err(); err != nil {
			t.Errorf("contexts that were done before a byte was sent have ended the connection: %v", err)
		}
	})
}

// A peer that does not read is given up with the context; the connection ends,
// for half a request is on it.
func TestClientPeerThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ServerOptions{Handler: fake{handle: func(ctx context.Context, r *Request) Reply {
			<-ctx.Done()
			return Reply{Close: true}
		}}})
		defer w.close()
		c := w.client(ClientOptions{})
		defer c.Close()
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				if _, err := c.Do(ctx, metadataFor(12, strings.Repeat("x", 1<<20))); err == nil {
					t.Error("Do succeeded")
				}
			})
		}
		wg.Wait()
		<-c.Done()
		if c.Err() == nil {
			t.Error("no error")
		}
	})
}

// Whatever a bad peer answers, every call ends with an error.
func TestClientBadPeer(t *testing.T) {
	for name, answer := range map[string]string{
		"nothing":          "",
		"negative length":  "\xff\xff\xff\xff\x00\x00\x00\x00",
		"too long":         "\x7f\xff\xff\xff\x00\x00\x00\x00",
		"short":            "\x00\x00\x00\x03\x00\x00\x00\x00",
		"wrong id":         "\x00\x00\x00\x08\x00\x00\x00\x63\x00\x00\x00\x00",
		"no tags":          "\x00\x00\x00\x04\x00\x00\x00\x00",
		"cut":              "\x00\x00\x01\x00\x00\x00\x00\x00abc",
		"body of rubbish":  "\x00\x00\x00\x0a\x00\x00\x00\x00\x00\xff\xff\xff\xff\xff",
		"array of billion": "\x00\x00\x00\x0e\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\x07",
	} {
		t.Run(name, func(t *testing.T) {
			here, there := net.Pipe()
			go func() {
				b := make([]byte, 1000)
				there.Read(b)
				io.WriteString(there, answer)
				there.Close()
			}()
			c := NewClient(here, ClientOptions{MaxResponseBytes: 1 << 20})
			defer c.Close()
			if resp, err := c.Do(context.Background(), metadataFor(12, "x")); err == nil {
				t.Errorf("Do: %+v", resp)
			}
			<-c.Done()
			if _, err := c.Do(context.Background(), metadataFor(12, "x")); err == nil {
				t.Error("Do succeeded on a dead connection")
			}
		})
	}
}

func TestClientClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ServerOptions{Handler: fake{handle: func(ctx context.Context, r *Request) Reply {
			<-ctx.Done()
			return Reply{Close: true}
		}}})
		defer w.close()
		c := w.client(ClientOptions{})
		failed := make(chan error)
		go func() {
			_, err := c.Do(context.Background(), metadataFor(12, "x"))
			failed <- err
		}()
		synctest.Wait()
		c.Close()
		if err := <-failed; !errors.Is(err, ErrClosed) {
			t.Errorf("Do: %v", err)
		}
	})
	if _, err := Dial(context.Background(), "127.0.0.1:1", ClientOptions{}); err == nil {
		t.Error("connected to a port that nobody listens on")
	}
}
