package broker

import (
	"reflect"
	"strings"
)

// mostText is what a string of the protocol can hold, in bytes. Kafka fails on a
// longer one, in every version; kmsg writes a length that wraps, and with it an
// answer that nobody can read. Error messages repeat names, and values of configs
// may grow by appending: they are cut, so that the answer stays one.
const mostText = 1<<15 - 1

// isText says whether a field holds such a text.
func isText(f reflect.StructField) bool {
	if f.Name != "ErrorMessage" && f.Name != "Value" {
		return false
	}
	return f.Type.Kind() == reflect.String || f.Type.Kind() == reflect.Pointer && f.Type.Elem().Kind() == reflect.String
}

// hasTexts says whether messages of a type hold texts, at any depth.
func hasTexts(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		return hasTexts(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); f.IsExported() && (isText(f) || hasTexts(f.Type)) {
				return true
			}
		}
	}
	return false
}

// clipTexts cuts the texts of a message that are too long for the protocol.
func clipTexts(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			clipTexts(v.Elem())
		}
	case reflect.Slice:
		if k := v.Type().Elem().Kind(); k != reflect.Struct && k != reflect.Pointer {
			return
		}
		for i := range v.Len() {
			clipTexts(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			switch fv := v.Field(i); {
			case !f.IsExported() || f.Name == "UnknownTags":
			case !isText(f):
				clipTexts(fv)
			case fv.Kind() == reflect.String:
				if fv.Len() > mostText {
					fv.SetString(clippedTo(fv.String(), mostText))
				}
			case !fv.IsNil() && fv.Elem().Len() > mostText:
				s := clippedTo(fv.Elem().String(), mostText)
				fv.Set(reflect.ValueOf(&s)) // what it points to may be shared
			}
		}
	}
}

// clippedTo is a text in at most so many bytes, with dots where it was cut.
func clippedTo(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most-3], "") + "..."
}
