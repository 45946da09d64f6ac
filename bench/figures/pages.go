package main

import (
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

//go:embed pages
var templates embed.FS

// A page has blocks of figures, each between two comments. The template with the name of the
// block makes its text.
type page struct {
	path   string // from the root of the repository
	blocks []string
}

var pages = []page{
	{"README.md", []string{"cost"}},
	{"bench/README.md", []string{"activities", "servers", "crowds", "ahead", "loadtest"}},
	{"docs/operations.md", []string{"restarts"}},
}

func (p page) file() string { return filepath.Join("..", filepath.FromSlash(p.path)) }

// render returns the page as it is, and as it should be.
func (p page) render(r *results) (old, now string, err error) {
	b, err := os.ReadFile(p.file())
	if err != nil {
		return "", "", err
	}
	old = strings.ReplaceAll(string(b), "\r\n", "\n")
	now = old
	for _, block := range p.blocks {
		t, err := template.New(block+".md").Funcs(r.funcs()).ParseFS(templates, "pages/"+block+".md")
		if err != nil {
			return "", "", err
		}
		var text strings.Builder
		if err := t.Execute(&text, nil); err != nil {
			return "", "", err
		}
		if now, err = replace(now, block, text.String()); err != nil {
			return "", "", fmt.Errorf("%s: %w", p.path, err)
		}
	}
	return old, now, nil
}

// replace replaces the text of a block.
func replace(text, block, by string) (string, error) {
	begin := fmt.Sprintf("<!-- figures: bench/figures/pages/%s.md -->\n", block)
	const end = "<!-- end of figures -->\n"
	before, rest, ok := strings.Cut(text, begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return "", fmt.Errorf("there is no block between %q and %q", begin, end)
	}
	return before + begin + by + end + after, nil
}
