// Package page writes a result as one HTML page that needs nothing else: the text
// that a terminal shows, and plots above it. It uses neither a plotting library nor
// templates, which would take most of the time in which a program is built.
package page

import (
	"fmt"
	"html"
	"io"
	"strings"
)

const head = `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>%[1]s</title>
<style>
body { margin: 0 auto; max-width: 60rem; padding: 2rem 1rem; color: #1d2430; background: #fff; font: 16px/1.5 system-ui, sans-serif; }
figure { margin: 0 0 2rem; overflow-x: auto; }
pre { font-size: .8rem; line-height: 1.4; overflow-x: auto; }
</style>
</head>
<body>
<h1>%[1]s</h1>
`

// Write writes a page with the plots that have something to draw, and the text that
// write writes.
func Write(w io.Writer, title string, write func(io.Writer), plots ...Plot) error {
	var text, out strings.Builder
	write(&text)
	fmt.Fprintf(&out, head, html.EscapeString(title))
	for _, p := range plots {
		if svg, err := p.SVG(); err == nil {
			fmt.Fprintf(&out, "<h2>%s</h2>\n<p>%s</p>\n<figure>%s</figure>\n", html.EscapeString(p.Title), html.EscapeString(p.Caption), svg)
		}
	}
	fmt.Fprintf(&out, "<pre>%s</pre>\n</body>\n</html>\n", html.EscapeString(text.String()))
	_, err := io.WriteString(w, out.String())
	return err
}
