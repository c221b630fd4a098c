package wire

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Decode parses the body of a request. Bytes left over after a good body are
// ignored, as Kafka does. After an error the connection is to be closed:
// Reply{Close: true}.
//
// Byte slices of the result are slices of the body; strings are copies.
func Decode(r *Request) (kmsg.Request, error) {
	req := kmsg.RequestForKey(r.Key)
	if req == nil {
		return nil, fmt.Errorf("decoding a request: api key %d is unknown", r.Key)
	}
	if err := DecodeInto(r, req); err != nil {
		return nil, err
	}
	return req, nil
}

// DecodeInto is Decode for a request value of the caller's.
func DecodeInto(r *Request, into kmsg.Request) error {
	err := check(r)
	if err == nil {
		into.SetVersion(r.Version)
		err = into.ReadFrom(r.Body)
	}
	if err == nil {
		err = checkEnums(into)
	}
	if err != nil {
		return fmt.Errorf("decoding %s v%d of %d bytes: %w", kmsg.NameForKey(r.Key), r.Version, len(r.Body), err)
	}
	return nil
}

var (
	errLongString  = errors.New("a string is longer than 32767 bytes")
	errUnknownEnum = errors.New("an ACL enum is UNKNOWN")
)

// check refuses what Kafka's own parser refuses: it is stricter than kmsg, about
// nulls and long strings. What Kafka takes for no struct, any negative mark in its
// place, it makes plain in the body: kmsg knows only -1.
func check(r *Request) error {
	l := layoutOf(r.Key, r.Version)
	if l == nil {
		return nil
	}
	s := surveyor{walker: walker{b: r.Body, flexible: flexible(r.Key, r.Version)}, plain: true}
	s.value(l)
	return s.err
}

// checkEnums refuses what Kafka's authorizer requests refuse when they are made.
func checkEnums(req kmsg.Request) error {
	switch r := req.(type) {
	case *kmsg.DescribeACLsRequest:
		if r.ResourceType == 0 || r.ResourcePatternType == 0 || r.Operation == 0 || r.PermissionType == 0 {
			return errUnknownEnum
		}
	case *kmsg.CreateACLsRequest:
		for i := range r.Creations {
			c := &r.Creations[i]
			if c.ResourceType == 0 || c.ResourcePatternType == 0 || c.Operation == 0 || c.PermissionType == 0 {
				return errUnknownEnum
			}
		}
	case *kmsg.DeleteACLsRequest:
		for i := range r.Filters {
			f := &r.Filters[i]
			if f.ResourceType == 0 || f.ResourcePatternType == 0 || f.Operation == 0 || f.PermissionType == 0 {
				return errUnknownEnum
			}
		}
	}
	return nil
}
