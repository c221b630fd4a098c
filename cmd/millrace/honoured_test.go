package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"millrace/controller/config"
)

// A broker config that the catalogue calls honoured must be read somewhere: by
// its name in the code, or as what a topic config falls back to.
func TestHonouredConfigsAreRead(t *testing.T) {
	var source strings.Builder
	root := filepath.Join("..", "..")
	for _, room := range []string{"broker", "controller", "storage", "wire", "cmd"} {
		err := filepath.WalkDir(filepath.Join(root, room), func(path string, d fs.DirEntry, err error) error {
			name := filepath.Base(path)
			if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") ||
				strings.HasPrefix(name, "catalogue") || name == "requirement.go" {
				return err
			}
			b, err := os.ReadFile(path)
			source.Write(b)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	text := source.String()
	inherited := map[string]bool{}
	for _, k := range config.Keys(config.TopicScope) {
		for _, name := range k.SynonymNames() {
			inherited[name] = true
		}
	}
	for _, k := range config.Keys(config.BrokerScope) {
		if k.Effect == config.Honoured && !inherited[k.Name] && !strings.Contains(text, `"`+k.Name+`"`) {
			t.Errorf("%s is called honoured, and nothing reads it", k.Name)
		}
	}
}
