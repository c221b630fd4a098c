package broker

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"millrace/controller/image"
	"millrace/wire"
)

// RequestFilter says which requests are logged: those of one of the clients, of
// one of the APIs, that name one of the topics. An empty list is no condition.
type RequestFilter struct {
	Clients []string // client ids
	APIs    []kmsg.Key
	Topics  []string
}

// ParseRequestFilter reads conditions as KEY=VALUE, comma-separated: client, api
// (a name, in any case, or a number) and topic. Values of one key are
// alternatives, keys must all hold; "all" is no condition.
func ParseRequestFilter(text string) (*RequestFilter, error) {
	f := &RequestFilter{}
	if text == "all" {
		return f, nil
	}
	for _, condition := range strings.Split(text, ",") {
		key, value, ok := strings.Cut(strings.TrimSpace(condition), "=")
		if !ok || value == "" {
			return nil, fmt.Errorf("%q: expected client=ID, api=NAME or topic=NAME, separated by commas, or all", condition)
		}
		switch key {
		case "client":
			f.Clients = append(f.Clients, value)
		case "topic":
			f.Topics = append(f.Topics, value)
		case "api":
			a, ok := apiNamed(value)
			if !ok {
				return nil, fmt.Errorf("api=%s: no such API is served", value)
			}
			f.APIs = append(f.APIs, a)
		default:
			return nil, fmt.Errorf("%q: the keys are client, api and topic", condition)
		}
	}
	return f, nil
}

func apiNamed(name string) (kmsg.Key, bool) {
	for i := range table {
		key := table[i].key
		if strings.EqualFold(kmsg.NameForKey(int16(key)), name) || strings.EqualFold(apiName(int16(key)), name) || fmt.Sprint(int16(key)) == name {
			return key, true
		}
	}
	return 0, false
}

// requestLog writes requests and their answers, decoded, for people who debug a
// client: one line for each. What is no text (records, tokens, metadata of
// members) is told by its size; values of configs that may be secret are left
// out. It costs nothing where there is none.
type requestLog struct {
	filter *RequestFilter
	log    *zap.Logger
}

func newRequestLog(f *RequestFilter, log *zap.Logger) *requestLog {
	if f == nil {
		return nil
	}
	return &requestLog{filter: f, log: log.Named("requests")}
}

// wants says whether a request is logged, as far as its header tells.
func (l *requestLog) wants(c *call) bool {
	f := l.filter
	return (len(f.Clients) == 0 || slices.Contains(f.Clients, c.clientID())) && (len(f.APIs) == 0 || slices.Contains(f.APIs, kmsg.Key(c.Key)))
}

func (l *requestLog) names(img *image.Image, msg any) bool {
	if len(l.filter.Topics) == 0 {
		return true
	}
	found := false
	topicsIn(img, msg, func(topic string) { found = found || slices.Contains(l.filter.Topics, topic) })
	return found
}

// handle executes a request and writes what came and went. A request that names
// no topic of the filter's may have an answer that does: an incremental fetch.
func (l *requestLog) handle(c *call, handle func(*Broker, *call) wire.Reply) wire.Reply {
	named := l.names(c.image, c.msg)
	if named {
		l.request(c)
	}
	return l.reply(c, handle(c.b, c), named)
}

func (l *requestLog) reply(c *call, r wire.Reply, named bool) wire.Reply {
	switch {
	case r.Pending != nil:
		r.Pending = &loggedReply{Pending: r.Pending, log: l, c: c, named: named}
		return r
	case r.Close && named:
		l.line(c, "closed", nil)
		return r
	case r.None && named:
		l.line(c, "no answer", nil)
		return r
	case r.Body == nil:
		return r
	}
	resp, err := decodedAnswer(c, r.Body)
	if err != nil {
		l.log.Warn("an answer that does not decode is not logged", zap.Int16("api", c.Key), zap.Error(err))
		return r
	}
	if !named {
		if c.Key == int16(kmsg.Produce) || !l.names(c.image, resp) {
			return r
		}
		l.request(c)
	}
	l.line(c, "answer", resp)
	return r
}

// loggedReply writes the answer that another pending reply becomes.
type loggedReply struct {
	wire.Pending
	log   *requestLog
	c     *call
	named bool
}

// Reply is part of wire.Pending.
func (p *loggedReply) Reply() wire.Reply { return p.log.reply(p.c, p.Pending.Reply(), p.named) }

// Hurry is part of wire.Pending, for those that can.
func (p *loggedReply) Hurry() {
	if h, ok := p.Pending.(interface{ Hurry() }); ok {
		h.Hurry()
	}
}

func decodedAnswer(c *call, body *wire.Body) (kmsg.Response, error) {
	b, err := body.Bytes()
	if err != nil {
		return nil, err
	}
	resp := kmsg.ResponseForKey(c.Key)
	if c.msg != nil {
		resp.SetVersion(c.Version)
	}
	return resp, resp.ReadFrom(b)
}

func (l *requestLog) request(c *call) { l.line(c, "request", c.msg) }

// maxLine bounds the fields of one line.
const maxLine = 16 << 10

func (l *requestLog) line(c *call, what string, msg any) {
	fields := []zap.Field{
		zap.String("api", apiName(c.Key)), zap.Int16("version", c.Version), zap.Int32("correlation", c.CorrelationID), zap.String("client", clippedTo(c.clientID(), mostLogged)),
		zap.Uint64("connection", c.Conn.ID), zap.Stringer("remote", c.Conn.Remote), zap.String("listener", c.Conn.Listener), zap.String("principal", c.Conn.Principal),
	}
	if what != "request" {
		fields = append(fields, zap.Duration("after", time.Since(c.Received)))
	}
	if msg != nil {
		text := appendFields(nil, msg)
		if len(text) > maxLine {
			fields = append(fields, zap.String("fields", strings.ToValidUTF8(string(text[:maxLine]), "")+" ..."))
		} else {
			fields = append(fields, zap.Reflect("fields", json.RawMessage(text)))
		}
	}
	l.log.Info(what, fields...)
}
