package config

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
)

func TestParseProperties(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     []Property
	}{
		{"nothing", "", nil},
		{"plain", "a=b\nc=d", []Property{{"a", "b", 1}, {"c", "d", 2}}},
		{"separators", "a b\nc:d\ne = f\ng\t:\th\ni==j\nk : = l", []Property{{"a", "b", 1}, {"c", "d", 2}, {"e", "f", 3}, {"g", "h", 4}, {"i", "=j", 5}, {"k", "= l", 6}}},
		{"no value", "a\nb=\nc:", []Property{{"a", "", 1}, {"b", "", 2}, {"c", "", 3}}},
		{"no key", "=b", []Property{{"", "b", 1}}},
		{"comments", "# a=b\n  ! c=d\n\n\f\te=f#g", []Property{{"e", "f#g", 4}}},
		{"trailing blanks stay", "a=b \t\r\nc=d", []Property{{"a", "b \t", 1}, {"c", "d", 2}}},
		{"line ends", "a=b\rc=d\r\ne=f", []Property{{"a", "b", 1}, {"c", "d", 2}, {"e", "f", 3}}},
		{"continued", "a=b,\\\n   c,\\\r\n\td\ne=f", []Property{{"a", "b,c,d", 1}, {"e", "f", 4}}},
		{"continued into a comment sign", "a=b\\\n#c", []Property{{"a", "b#c", 1}}},
		{"even backslashes do not continue", "a=b\\\\\nc=d", []Property{{"a", "b\\", 1}, {"c", "d", 2}}},
		{"a comment is not continued", "#a\\\nb=c", []Property{{"b", "c", 2}}},
		{"only a backslash", "\\\na=b", []Property{{"a", "b", 2}}},
		{"nothing is continued into a comment", "\\\n!x\na=b", []Property{{"a", "b", 3}}},
		{"nothing is continued to the end", "a=b\n\\\n", []Property{{"a", "b", 1}, {"", "", 2}}},
		{"nothing is continued into blanks", "\\\n  ", nil},
		{"nor over \\r\\n to the end", "\\\r\n", nil},
		{"backslash at the end", "a=b\\", []Property{{"a", "b", 1}}},
		{"escapes", `a\=b\:c\ d=\t\n\r\f\q\\\#`, []Property{{"a=b:c d", "\t\n\r\fq\\#", 1}}},
		{"unicode", `a=\u0041\u00e9\uD83D\uDE00x`, []Property{{"a", "Aé😀x", 1}}},
		{"latin 1", "a=\xe9\xff", []Property{{"a", "éÿ", 1}}},
		{"utf-8 reads as latin 1", "a=é", []Property{{"a", "Ã©", 1}}},
		{"half a surrogate", `a=\uD83Dx`, []Property{{"a", "\ufffdx", 1}}},
		{"two of a key", "a=1\na=2", []Property{{"a", "1", 1}, {"a", "2", 2}}},
		{"a byte order mark", "\xef\xbb\xbfa=b", []Property{{"a", "b", 1}}},
		{"a byte order mark before a comment", "\xef\xbb\xbf# a\nb=c", []Property{{"b", "c", 2}}},
		{"no expansion", "a=${b}", []Property{{"a", "${b}", 1}}},
	} {
		got, err := ParseProperties(strings.NewReader(c.in))
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, %v, want %+v", c.name, got, err, c.want)
		}
	}
	for _, in := range []string{`a=\u12`, "b=1\na=\\u12g4", `\u=`} {
		if _, err := ParseProperties(strings.NewReader(in)); err == nil || !strings.Contains(err.Error(), "malformed") {
			t.Errorf("%s: %v", in, err)
		}
	}
	for _, in := range []string{"\xff\xfea\x00=\x00b\x00", "\xfe\xff\x00a\x00=\x00b"} {
		if _, err := ParseProperties(strings.NewReader(in)); err == nil || !strings.Contains(err.Error(), "UTF-16") {
			t.Errorf("%q: %v", in, err)
		}
	}
	broken := errors.New("broken")
	if _, err := ParseProperties(iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("a reader's error: %v", err)
	}
}

// escaped writes a string so that a properties file gives it back.
func escaped(s string) string {
	const hex = "0123456789abcdef"
	var b strings.Builder
	for i := range len(s) {
		b.WriteString(`\u00` + string(hex[s[i]>>4]) + string(hex[s[i]&15]))
	}
	return b.String()
}

func FuzzParseProperties(f *testing.F) {
	for _, s := range []string{"a=b", "a\\\n b:c", "\\u0041=\\uD83D\\uDE00", "#x\n!y\r\rz", "a\\", "\\\\\\\n="} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := ParseProperties(strings.NewReader(string(b)))
		if err != nil {
			return
		}
		for _, p := range list {
			if p.Line < 1 || p.Line > strings.Count(string(b), "\n")+strings.Count(string(b), "\r")+1 {
				t.Fatalf("line %d of %q", p.Line, b)
			}
		}
		// What stands for itself byte by byte comes back whole, after anything.
		key := string(b[:len(b)/2])
		value := string(b[len(b)/2:])
		line := escaped(key) + "=" + escaped(value)
		got, err := ParseProperties(strings.NewReader(line))
		if line == "=" {
			return
		}
		latin := func(s string) string {
			r := make([]rune, len(s))
			for i := range len(s) {
				r[i] = rune(s[i])
			}
			return string(r)
		}
		if err != nil || len(got) != 1 || got[0].Key != latin(key) || got[0].Value != latin(value) {
			t.Fatalf("%q and %q became %+v, %v", key, value, got, err)
		}
	})
}
