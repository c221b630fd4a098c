// Command cmd sends one raw frame to several servers, Apache Kafka and Millrace
// say, and prints each answer decoded.
//
//	go run ./compat-tests/frame/cmd -api Metadata -version 12 -body '{"Topics":[{"Topic":"t"}]}' 127.0.0.1:9092 127.0.0.1:29092
//
// The body is JSON with the field names of the request; byte fields are base64.
// With -hex the bytes of a whole frame, behind its length, are sent instead.
package main

import (
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/compat-tests/frame"
)

func main() {
	api := flag.String("api", "", "the API's name, as in Metadata, or its key")
	version := flag.Int("version", 0, "the request's version")
	body := flag.String("body", "{}", "the request as JSON")
	raw := flag.String("hex", "", "a frame's bytes in hexadecimal, in place of a body")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: frame -api NAME -version N [-body JSON | -hex BYTES] HOST:PORT ...")
		flag.PrintDefaults()
	}
	flag.Parse()
	if err := run(*api, int16(*version), *body, *raw, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(api string, version int16, body, raw string, servers []string) error {
	key := int16(-1)
	for k := range int16(kmsg.MaxKey + 1) {
		if strings.EqualFold(kmsg.NameForKey(k), api) || fmt.Sprint(k) == api {
			key = k
		}
	}
	req := kmsg.RequestForKey(key)
	if req == nil {
		return fmt.Errorf("no API is called %q", api)
	}
	if d, ok := req.(interface{ Default() }); ok {
		d.Default()
	}
	if err := json.Unmarshal([]byte(body), req); err != nil {
		return fmt.Errorf("the body: %w", err)
	}
	for _, s := range servers {
		c, err := frame.Dial(s)
		if err != nil {
			return err
		}
		req.SetVersion(version)
		bytes := c.Encode(req)
		if raw != "" {
			if bytes, err = hex.DecodeString(raw); err != nil {
				return err
			}
		}
		kind := req.ResponseKind()
		kind.SetVersion(version)
		o := c.Send(bytes, kind)
		c.Close()
		fmt.Printf("%s: %s v%d, %d bytes, after %v\n%s\n\n", s, kmsg.NameForKey(key), version, len(bytes), o.Took, o)
	}
	return nil
}
