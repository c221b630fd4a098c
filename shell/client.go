package shell

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/controller/config"
)

// The flags by which a tool finds its broker.
var (
	bootstrapOption = option{name: "bootstrap-server", letter: "b", value: "HOST:PORT", help: "the broker, or several with commas"}
	commandConfig   = option{name: "command-config", value: "FILE", help: "properties of the client"}
)

// client is a tool's connection to a cluster.
type client struct {
	*kgo.Client
	admin   *kadm.Client
	ctx     context.Context
	limit   time.Duration
	servers []string
}

// apiTimeout is default.api.timeout.ms of Kafka's clients: how long a tool goes
// on trying, a broker that is not up yet included.
const apiTimeout = time.Minute

// connect makes the client that a tool's flags describe and waits for a broker
// that answers.
func (sh *Shell) connect(c *toolCall, extra ...kgo.Opt) (*client, func(), error) {
	if !c.has("bootstrap-server") {
		return nil, nil, misuse("--bootstrap-server must be specified")
	}
	opts := []kgo.Opt{kgo.ClientID("millrace-" + c.tool.name), kgo.SoftwareNameAndVersion("millrace-"+c.tool.name, sh.softwareVersion())}
	limit := apiTimeout
	seeds, err := bootstrapServers(c.get("bootstrap-server"))
	if err != nil {
		return nil, nil, err
	}
	if file := c.get("command-config"); file != "" {
		more, timeout, err := clientProperties(file)
		if err != nil {
			return nil, nil, err
		}
		opts = append(opts, more...)
		if timeout > 0 {
			limit = timeout
		}
	}
	told := &dials{tell: func(text string) { fmt.Fprintln(sh.Stderr, text) }, after: tellAfter}
	opts = append(opts, kgo.WithHooks(told), kgo.SeedBrokers(seeds...), kgo.RetryTimeout(limit), kgo.MetadataMinAge(10*time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 100 * time.Millisecond }))
	kc, err := kgo.NewClient(append(opts, extra...)...)
	if err != nil {
		return nil, nil, err
	}
	parent := sh.ctx
	if parent == nil {
		parent = context.Background()
	}
	ctx, cancel := context.WithTimeout(parent, limit)
	admin := kadm.NewClient(kc)
	admin.SetTimeoutMillis(int32(min(limit, 30*time.Second).Milliseconds()))
	k, done := &client{Client: kc, admin: admin, ctx: ctx, limit: limit, servers: seeds}, func() { cancel(); kc.CloseAllowingRebalance() }
	if err := k.await(sh); err != nil {
		done()
		return nil, nil, err
	}
	return k, done, nil
}

// tellAfter is how long a tool waits for its broker in silence.
const tellAfter = 2 * time.Second

// await goes on asking until a broker answers, as Kafka's tools do: they are
// often started together with it.
func (c *client) await(sh *Shell) error {
	begun, told := time.Now(), false
	for {
		err := c.Ping(c.ctx)
		if err == nil {
			return nil
		}
		if !told && time.Since(begun) > tellAfter {
			told = true
			fmt.Fprintf(sh.Stderr, "waiting for %s: %s\n", strings.Join(c.servers, ","), oneLine(err))
		}
		select {
		case <-c.ctx.Done():
			if !errors.Is(c.ctx.Err(), context.DeadlineExceeded) {
				return c.ctx.Err()
			}
			return unreachable(fmt.Sprintf("Timed out after %d ms: %s: %s", c.limit.Milliseconds(), strings.Join(c.servers, ","), oneLine(err)))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// unreachable says that no broker has answered.
type unreachable string

func (u unreachable) Error() string { return string(u) }

// softwareVersion is the version in the form that KIP-511 allows.
func (sh *Shell) softwareVersion() string {
	v := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '.' {
			return r
		}
		return '-'
	}, sh.Version)
	if v = strings.Trim(v, "-."); v == "" {
		return "unknown"
	}
	return v
}

func bootstrapServers(text string) ([]string, error) {
	var seeds []string
	for _, one := range strings.Split(text, ",") {
		one = strings.TrimSpace(one)
		if one == "" {
			continue
		}
		host, port, err := net.SplitHostPort(one)
		if n, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || n == 0 || host == "" {
			return nil, says("Invalid url in bootstrap.servers: %s", one)
		}
		seeds = append(seeds, one)
	}
	if len(seeds) == 0 {
		return nil, says("No resolvable bootstrap urls given in bootstrap.servers")
	}
	return seeds, nil
}

// propertiesOf reads a properties file.
func propertiesOf(path string) ([]config.Property, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	list, err := config.ParseProperties(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return list, nil
}

// clientProperties reads the file of --command-config. Of what concerns the
// connection everything counts or is refused; what only tunes Java's client is
// passed over.
func clientProperties(path string) (opts []kgo.Opt, timeout time.Duration, err error) {
	list, err := propertiesOf(path)
	if err != nil {
		return nil, 0, fmt.Errorf("reading the client's properties: %w", err)
	}
	for _, property := range list {
		at := fmt.Sprintf("%s:%d: %s=%s", path, property.Line, property.Key, property.Value)
		switch key, value := property.Key, property.Value; {
		case key == "security.protocol" && value != "PLAINTEXT":
			return nil, 0, fmt.Errorf("%s is not supported: these tools speak PLAINTEXT only", at)
		case strings.HasPrefix(key, "sasl.") || strings.HasPrefix(key, "ssl."):
			return nil, 0, fmt.Errorf("%s:%d: %s is not supported: these tools speak PLAINTEXT only", path, property.Line, key)
		case key == "client.id":
			opts = append(opts, kgo.ClientID(value))
		case key == "client.rack":
			opts = append(opts, kgo.Rack(value))
		case key == "default.api.timeout.ms":
			ms, err := strconv.ParseInt(value, 10, 32)
			if err != nil || ms < 1 {
				return nil, 0, fmt.Errorf("%s: not a number of milliseconds", at)
			}
			timeout = time.Duration(ms) * time.Millisecond
		}
	}
	return opts, timeout, nil
}

// explain puts an error of the client into one sentence: the broker's message
// where it has sent one, else Kafka's words for the code.
func (c *client) explain(err error) string {
	var told brokerError
	var code *kerr.Error
	switch {
	case errors.As(err, &told):
		return told.message
	case errors.As(err, &code):
		return code.Description
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("Timed out after %d ms: no answer from %s", c.limit.Milliseconds(), strings.Join(c.servers, ","))
	}
	return err.Error()
}
