package wire

import (
	"errors"
	"fmt"
	"math"
	"reflect"

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
	into.SetVersion(r.Version)
	if err := into.ReadFrom(r.Body); err != nil {
		return fmt.Errorf("decoding %s v%d of %d bytes: %w", kmsg.NameForKey(r.Key), r.Version, len(r.Body), err)
	}
	if err := check(into, len(r.Body)); err != nil {
		return fmt.Errorf("decoding %s v%d of %d bytes: %w", kmsg.NameForKey(r.Key), r.Version, len(r.Body), err)
	}
	return nil
}

var (
	errLongString  = errors.New("a string is longer than 32767 bytes")
	errUnknownEnum = errors.New("an ACL enum is UNKNOWN")
)

// check refuses what kmsg takes and Kafka's own parser does not.
func check(req kmsg.Request, size int) error {
	switch r := req.(type) {
	case *kmsg.ProduceRequest:
		// By hand: this is the hot path, and most of the body is records.
		if size <= math.MaxInt16 {
			return nil
		}
		if r.TransactionID != nil && len(*r.TransactionID) > math.MaxInt16 {
			return errLongString
		}
		for i := range r.Topics {
			if len(r.Topics[i].Topic) > math.MaxInt16 {
				return errLongString
			}
		}
		return nil
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
	// A compact string can announce any length, a classic one cannot; and a
	// short body holds no long string. So the walk below is rare.
	if size > math.MaxInt16 && req.IsFlexible() && longString(reflect.ValueOf(req).Elem()) {
		return errLongString
	}
	return nil
}

func longString(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.String:
		return v.Len() > math.MaxInt16
	case reflect.Pointer:
		return !v.IsNil() && longString(v.Elem())
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[kmsg.Tags]() {
			return false
		}
		for i := range v.NumField() {
			if longString(v.Field(i)) {
				return true
			}
		}
	case reflect.Slice, reflect.Array:
		switch v.Type().Elem().Kind() {
		case reflect.String, reflect.Pointer, reflect.Struct, reflect.Slice:
		default:
			return false
		}
		for i := range v.Len() {
			if longString(v.Index(i)) {
				return true
			}
		}
	}
	return false
}
