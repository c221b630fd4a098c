//go:build compat && linux

package badinput

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/compat-tests/frame"
)

// setting is a config of a broker and what it is set to.
type setting struct {
	resource, key string // "" is the cluster's default
	value         *string
}

func (s setting) String() string {
	if s.value == nil {
		return fmt.Sprintf("%s of %q deleted", s.key, s.resource)
	}
	return fmt.Sprintf("%s of %q = %q", s.key, s.resource, *s.value)
}

// once asks one question over a connection of its own. One that is closed at once
// came over a limit that the connection before it still filled.
func (v *victim) once(t *testing.T, req kmsg.Request) kmsg.Response {
	t.Helper()
	last := ""
	for end := time.Now().Add(prompt); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		c, err := frame.Dial(v.Bootstrap)
		if err != nil {
			t.Fatal(err)
		}
		o := c.Ask(req)
		c.Close()
		if o.Response != nil {
			return o.Response
		}
		if last = o.String(); !o.Closed {
			break
		}
	}
	t.Fatalf("the broker does not answer %T: %s", req, last)
	return nil
}

// set changes a config; its code is Kafka's.
func (v *victim) set(t *testing.T, s setting) (code int16, message string) {
	t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Version = 1
	rr := kmsg.NewIncrementalAlterConfigsRequestResource()
	rr.ResourceType, rr.ResourceName = kmsg.ConfigResourceTypeBroker, s.resource
	rc := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	rc.Name, rc.Value = s.key, s.value
	if s.value == nil {
		rc.Op = kmsg.IncrementalAlterConfigOpDelete
	}
	rr.Configs = append(rr.Configs, rc)
	req.Resources = append(req.Resources, rr)
	r := v.once(t, req).(*kmsg.IncrementalAlterConfigsResponse).Resources[0]
	if r.ErrorMessage != nil {
		message = *r.ErrorMessage
	}
	return r.ErrorCode, message
}

// dynamicKeys are the configs that the broker says can be changed while it runs.
func (v *victim) dynamicKeys(t *testing.T) (keys []string) {
	t.Helper()
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Version = 4
	rr := kmsg.NewDescribeConfigsRequestResource()
	rr.ResourceType, rr.ResourceName = kmsg.ConfigResourceTypeBroker, "1"
	req.Resources = append(req.Resources, rr)
	for _, c := range v.once(t, req).(*kmsg.DescribeConfigsResponse).Resources[0].Configs {
		if !c.ReadOnly {
			keys = append(keys, c.Name)
		}
	}
	if len(keys) < 80 {
		t.Fatalf("only %d configs are dynamic", len(keys))
	}
	return keys
}

// TestDynamicExtremes sets every config that can be changed on a running broker to
// the ends of what it takes and back, for the broker and for the cluster. Whatever
// is accepted leaves somebody able to connect and to take it back, at once and
// after a restart with all of it stored.
func TestDynamicExtremes(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	v := start(t, dir, "")
	text := func(s string) *string { return &s }
	invalid, invalidConfig := int16(42), int16(40)
	alive := func(what setting) {
		t.Helper()
		req := kmsg.NewPtrMetadataRequest()
		req.Version = 9
		if r := v.once(t, req).(*kmsg.MetadataResponse); len(r.Brokers) != 1 {
			t.Errorf("%v: Metadata names %d brokers", what, len(r.Brokers))
		}
	}
	accepted := 0
	var lowest, highest []setting
	for _, key := range v.dynamicKeys(t) {
		for _, resource := range []string{"1", ""} {
			var taken []setting
			for _, value := range []string{"0", "-1", "-2", "1", "2147483647", "2147483648", "9223372036854775807", "9223372036854775808", "", " ", "NaN", "x,y"} {
				if key == "max.connection.creation.rate" && value == "1" {
					continue // ten connections later it is one a second: a slow test
				}
				s := setting{resource, key, text(value)}
				switch code, message := v.set(t, s); {
				case code == 0:
					accepted++
					taken = append(taken, s)
					alive(s)
				case code != invalid && code != invalidConfig || message == "":
					t.Errorf("%v: error %d %q", s, code, message)
				}
			}
			if len(taken) == 0 {
				continue
			}
			lowest, highest = append(lowest, taken[0]), append(highest, taken[len(taken)-1])
			back := setting{resource, key, nil}
			if code, message := v.set(t, back); code != 0 {
				// A pool of threads does not more than double at once.
				if code, _ := v.set(t, setting{resource, key, text("2")}); code != 0 {
					t.Errorf("%v: error %d %q", back, code, message)
				}
				if code, message := v.set(t, back); code != 0 {
					t.Errorf("%v, after 2: error %d %q", back, code, message)
				}
			}
		}
	}
	if accepted < 150 {
		t.Errorf("only %d values were accepted", accepted)
	}
	t.Logf("%d values were accepted", accepted)
	for name, all := range map[string][]setting{"lowest": lowest, "highest": highest} {
		var kept []setting
		for _, s := range all {
			if code, _ := v.set(t, s); code == 0 { // some exclude one another
				kept = append(kept, s)
			}
		}
		if len(kept) < 50 {
			t.Errorf("only %d of the %s were accepted together", len(kept), name)
		}
		v.ends(t)
		v = start(t, dir, "")
		alive(setting{key: "the " + name + " of all"})
		for _, s := range kept {
			if code, message := v.set(t, setting{s.resource, s.key, nil}); code != 0 && code != invalid {
				t.Errorf("taking %v back: error %d %q", s, code, message)
			}
		}
	}
	v.check(t, 2*budget+allowance)
	v.ends(t)
}
