package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Property is one entry of a properties file, in the file's order. Where a key
// comes twice the later one counts.
type Property struct {
	Key, Value string
	Line       int // of its first character, from 1
}

// ParseProperties reads Java's properties format as java.util.Properties loads
// it from a stream: bytes are ISO 8859-1, \uXXXX is a UTF-16 unit, a backslash
// at the end of a line joins it to the next, # and ! open comments. Unlike there
// a byte order mark, which editors put before UTF-8, is no part of the first key.
func ParseProperties(r io.Reader) ([]Property, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("reading properties: %w", err)
	}
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		return nil, errors.New("the file is UTF-16: it has to be saved as UTF-8 or ASCII")
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	var list []Property
	p := &propertyReader{rest: data, line: 1}
	for {
		line, number, ok := p.logicalLine()
		if !ok {
			return list, nil
		}
		key, value := cutProperty(line)
		k, err := unescape(key)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		v, err := unescape(value)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		list = append(list, Property{Key: k, Value: v, Line: number})
	}
}

type propertyReader struct {
	rest []byte
	line int
	crlf bool // the last line ended with \r\n
}

// natural gives the next line of the file, up to \n, \r or \r\n.
func (p *propertyReader) natural() ([]byte, bool) {
	if len(p.rest) == 0 {
		return nil, false
	}
	p.line++
	p.crlf = false
	i := bytes.IndexAny(p.rest, "\r\n")
	if i < 0 {
		line := p.rest
		p.rest = nil
		return line, true
	}
	line := p.rest[:i]
	if p.rest[i] == '\r' && i+1 < len(p.rest) && p.rest[i+1] == '\n' {
		i++
		p.crlf = true
	}
	p.rest = p.rest[i+1:]
	return line, true
}

// logicalLine gives the next line that holds a property: comments and blank
// lines are passed over, continued lines joined, blanks before each dropped.
// Like Java's, it takes a lone backslash at the end of the file for a property
// without key and value, unless \r\n follows.
func (p *propertyReader) logicalLine() ([]byte, int, bool) {
	var joined []byte // nil: no line is being continued
	number := 0
	for {
		at := p.line
		line, ok := p.natural()
		if !ok {
			return joined, number, len(joined) > 0 || joined != nil && !p.crlf
		}
		line = bytes.TrimLeft(line, " \t\f")
		if len(joined) == 0 {
			if len(line) == 0 || line[0] == '#' || line[0] == '!' {
				joined = nil
				continue
			}
			number = at
		}
		if !continues(line) {
			return append(joined, line...), number, true
		}
		if joined == nil {
			joined = []byte{}
		}
		joined = append(joined, line[:len(line)-1]...)
	}
}

// continues says whether a line ends in an odd number of backslashes.
func continues(line []byte) bool {
	n := 0
	for n < len(line) && line[len(line)-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}

// cutProperty splits at the first =, : or blank that no backslash precedes;
// blanks around it, and one = or : among them, belong to neither side.
func cutProperty(line []byte) (key, value []byte) {
	end := 0
	for end < len(line) && !bytes.ContainsRune([]byte("=: \t\f"), rune(line[end])) {
		if line[end] == '\\' {
			end++
		}
		end++
	}
	end = min(end, len(line))
	key, rest := line[:end], bytes.TrimLeft(line[end:], " \t\f")
	if len(rest) > 0 && (rest[0] == '=' || rest[0] == ':') {
		rest = bytes.TrimLeft(rest[1:], " \t\f")
	}
	return key, rest
}

// unescape decodes one side of a property to a string.
func unescape(b []byte) (string, error) {
	var out strings.Builder
	var high rune // a UTF-16 surrogate that waits for its second half
	put := func(r rune) {
		switch {
		case high != 0:
			if both := utf16.DecodeRune(high, r); both != utf8.RuneError {
				out.WriteRune(both)
				high = 0
				return
			}
			out.WriteRune(utf8.RuneError)
			high = 0
			fallthrough
		default:
			if r >= 0xd800 && r < 0xdc00 {
				high = r
				return
			}
			out.WriteRune(r)
		}
	}
	for i := 0; i < len(b); i++ {
		c := b[i]
		if c != '\\' {
			put(rune(c))
			continue
		}
		i++
		if i == len(b) {
			break
		}
		switch b[i] {
		case 'u':
			unit, ok := hexUnit(b[i+1:])
			if !ok {
				return "", fmt.Errorf("malformed \\uxxxx encoding in %q", b)
			}
			put(unit)
			i += 4
		case 't':
			put('\t')
		case 'n':
			put('\n')
		case 'r':
			put('\r')
		case 'f':
			put('\f')
		default:
			put(rune(b[i]))
		}
	}
	if high != 0 {
		out.WriteRune(utf8.RuneError)
	}
	return out.String(), nil
}

func hexUnit(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range b[:4] {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c >= 'a' && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case c >= 'A' && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return 0, false
		}
	}
	return r, true
}

// SplitOutsideBrackets splits at a separator where it is not in brackets: values
// with commas are written [a,b] on command lines.
func SplitOutsideBrackets(text string, separator byte) ([]string, error) {
	var parts []string
	from, deep := 0, 0
	for i := range len(text) {
		switch text[i] {
		case '[':
			deep++
		case ']':
			deep--
		case separator:
			if deep == 0 {
				parts, from = append(parts, text[from:i]), i+1
			}
		}
		if deep < 0 || deep > 1 {
			return nil, fmt.Errorf("%q: brackets do not match", text)
		}
	}
	if deep != 0 {
		return nil, fmt.Errorf("%q: brackets do not match", text)
	}
	return append(parts, text[from:]), nil
}
