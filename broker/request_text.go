package broker

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"

	"millrace/controller/config"
	"millrace/controller/image"
	"millrace/storage/batch"
)

// The text of a decoded request or answer: JSON with kmsg's field names, without
// what has its default (fields that a version does not have among it), and without
// bytes and secrets.

var (
	typeBytes = reflect.TypeFor[[]byte]()
	typeUUID  = reflect.TypeFor[[16]byte]()
)

// appendFields writes a message.
func appendFields(dst []byte, msg any) []byte {
	return appendValue(dst, "", reflect.ValueOf(msg))
}

func appendValue(dst []byte, field string, v reflect.Value) []byte {
	switch {
	case v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface:
		if v.IsNil() {
			return append(dst, "null"...)
		}
		return appendValue(dst, field, v.Elem())
	case v.Type() == typeBytes:
		return appendBytes(dst, field, v.Bytes())
	case v.Type() == typeUUID:
		id := v.Interface().([16]byte)
		return strconv.AppendQuote(dst, base64.RawURLEncoding.EncodeToString(id[:]))
	}
	switch v.Kind() {
	case reflect.Bool:
		return strconv.AppendBool(dst, v.Bool())
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if s, ok := v.Interface().(fmt.Stringer); ok {
			return appendString(dst, s.String())
		}
		return strconv.AppendInt(dst, v.Int(), 10)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return strconv.AppendUint(dst, v.Uint(), 10)
	case reflect.Float64:
		return appendString(dst, strconv.FormatFloat(v.Float(), 'g', -1, 64))
	case reflect.String:
		return appendString(dst, v.String())
	case reflect.Slice:
		dst = append(dst, '[')
		for i := range v.Len() {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst = appendValue(dst, field, v.Index(i)); len(dst) > 2*maxLine {
				break // it will be cut
			}
		}
		return append(dst, ']')
	case reflect.Struct:
		return appendStruct(dst, v)
	}
	return appendString(dst, "<"+v.Type().String()+">")
}

func appendString(dst []byte, s string) []byte {
	b, err := json.Marshal(s)
	if err != nil {
		return append(dst, `""`...)
	}
	return append(dst, b...)
}

func appendStruct(dst []byte, v reflect.Value) []byte {
	t := v.Type()
	secret := isSecretPair(v)
	defaults := reflect.New(t)
	if d, ok := defaults.Interface().(interface{ Default() }); ok {
		d.Default()
	}
	dst = append(dst, '{')
	begun := len(dst)
	for i := range t.NumField() {
		f, fv := t.Field(i), v.Field(i)
		if !f.IsExported() || f.Name == "UnknownTags" || f.Name == "Version" {
			continue
		}
		if f.Name != "ErrorCode" && (reflect.DeepEqual(fv.Interface(), defaults.Elem().Field(i).Interface()) || fv.Kind() == reflect.Slice && fv.IsNil()) {
			continue
		}
		if len(dst) > begun {
			dst = append(dst, ',')
		}
		dst = append(strconv.AppendQuote(dst, f.Name), ':')
		switch {
		case secret && f.Name == "Value":
			dst = append(dst, `"<hidden>"`...)
		case f.Name == "ErrorCode" && fv.Kind() == reflect.Int16:
			dst = strconv.AppendInt(dst, fv.Int(), 10)
			if fv.Int() != 0 {
				dst = append(append(append(dst, `,"Error":"`...), errorName(int16(fv.Int()))...), '"')
			}
		default:
			dst = appendValue(dst, f.Name, fv)
		}
	}
	return append(dst, '}')
}

// isSecretPair says whether a struct is a config whose value is not to be seen: a
// password, or a key that nobody knows. Quotas (by Key) are none.
func isSecretPair(v reflect.Value) bool {
	name, value := v.FieldByName("Name"), v.FieldByName("Value")
	if !name.IsValid() || !value.IsValid() || name.Kind() != reflect.String {
		return false
	}
	for _, scope := range []config.Scope{config.TopicScope, config.BrokerScope, config.GroupScope, config.ClientMetricsScope} {
		if k, ok := config.Find(scope, name.String()); ok {
			return k.Type == config.Password
		}
	}
	return true
}

// appendBytes tells bytes by their size; of records, how many there are too.
func appendBytes(dst []byte, field string, b []byte) []byte {
	if field != "Records" && field != "RecordBatches" {
		return fmt.Appendf(dst, `"<%d bytes>"`, len(b))
	}
	batches, records := 0, 0
	for at := b; len(at) >= batch.HeaderSize; {
		h, err := batch.ParseHeader(at)
		if err != nil || h.Size() > len(at) {
			break
		}
		batches++
		records += int(h.Count)
		at = at[h.Size():]
	}
	return fmt.Appendf(dst, `{"bytes":%d,"batches":%d,"records":%d}`, len(b), batches, records)
}

// topicsIn tells the topics that a message names, by name or by id.
func topicsIn(img *image.Image, msg any, tell func(topic string)) {
	walkTopics(img, "", reflect.ValueOf(msg), tell)
}

func walkTopics(img *image.Image, field string, v reflect.Value, tell func(string)) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			walkTopics(img, field, v.Elem(), tell)
		}
	case reflect.String:
		if field == "Topic" || field == "Topics" || field == "TopicNames" || field == "ResourceName" {
			tell(v.String())
		}
	case reflect.Array:
		if v.Type() == typeUUID && field == "TopicID" {
			if t := img.TopicByID(v.Interface().([16]byte)); t != nil {
				tell(t.Name)
			}
		}
	case reflect.Slice:
		switch v.Type().Elem().Kind() {
		case reflect.Struct, reflect.String, reflect.Array:
			for i := range v.Len() {
				walkTopics(img, field, v.Index(i), tell)
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				walkTopics(img, f.Name, v.Field(i), tell)
			}
		}
	}
}
