// Package pages tests that what the repository's pages refer to exists: files, headings,
// commands and tests.
package pages

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../../.."

// files returns the files of the repository with a suffix, relative to the root.
func files(t *testing.T, suffix string) (all []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && d.Name() == ".git" {
			return fs.SkipDir
		}
		if err == nil && strings.HasSuffix(path, suffix) {
			all = append(all, path)
		}
		return err
	})
	if err != nil || len(all) == 0 {
		t.Fatalf("no files %s: %v", suffix, err)
	}
	return all
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(b), "\r\n", "\n")
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

func TestLinks(t *testing.T) {
	for _, page := range files(t, ".md") {
		for _, m := range link.FindAllStringSubmatch(prose(read(t, page)), -1) {
			if why := broken(t, page, m[1]); why != "" {
				t.Errorf("%s links to %s: %s", page, m[1], why)
			}
		}
	}
}

// broken says what is wrong with a link, if anything is.
func broken(t *testing.T, page, target string) string {
	if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
		return ""
	}
	file, anchor, _ := strings.Cut(target, "#")
	to := filepath.ToSlash(page)
	if file != "" {
		to = filepath.ToSlash(filepath.Join(filepath.Dir(page), file))
	}
	info, err := os.Stat(filepath.Join(root, to))
	switch {
	case err != nil:
		return "there is no such file"
	case anchor == "" || info.IsDir():
		return ""
	case !headings(read(t, to))[anchor]:
		return "there is no such heading"
	}
	return ""
}

var reference = regexp.MustCompile(`\b(?:docs/[\w./-]+|[A-Z]+)\.md(?:#[\w-]+)?`)

// TestReferences: code and configuration name pages too, such as the runbooks of alerts. These paths
// are relative to the root.
func TestReferences(t *testing.T) {
	found := 0
	for _, suffix := range []string{".go", ".yaml", ".yml", ".js"} {
		for _, file := range files(t, suffix) {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			for _, target := range reference.FindAllString(read(t, file), -1) {
				found++
				if why := broken(t, "README.md", target); why != "" {
					t.Errorf("%s names %s: %s", file, target, why)
				}
			}
		}
	}
	if found < 30 {
		t.Errorf("found %d references", found)
	}
}

var quoted = regexp.MustCompile("`([a-z][\\w-]*(?:/[\\w.-]+)+)`")

// TestPaths: paths in backquotes that begin with a folder of the root exist.
func TestPaths(t *testing.T) {
	top := map[string]bool{}
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		top[e.Name()] = e.IsDir()
	}
	for _, page := range files(t, ".md") {
		for _, m := range quoted.FindAllStringSubmatch(prose(read(t, page)), -1) {
			first, _, _ := strings.Cut(m[1], "/")
			if !top[first] {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
				t.Errorf("%s names %s, which does not exist", page, m[1])
			}
		}
	}
}

var (
	heading  = regexp.MustCompile(`(?m)^#+ (.*)$`)
	noAnchor = regexp.MustCompile(`[^\p{L}\p{N}\- _]`)
)

// headings returns the anchors of a page, as GitHub makes them.
func headings(text string) map[string]bool {
	all := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(prose(text), -1) {
		plain := link.ReplaceAllString(m[1], "]")
		all[strings.ReplaceAll(noAnchor.ReplaceAllString(strings.ToLower(plain), ""), " ", "-")] = true
	}
	return all
}

var fenced = regexp.MustCompile("(?ms)^```.*?^```")

// prose returns a page without its blocks of code.
func prose(text string) string { return fenced.ReplaceAllString(text, "") }

var run = regexp.MustCompile(`go (?:-C (\S+) )?(?:run|test|doc|vet)((?: -[a-z]+)*) (\.[^\s` + "`" + `"')]*)`)

// TestCommands looks for the folders of "go run", "go test" and "go doc", in pages and in doc
// comments.
func TestCommands(t *testing.T) {
	found := 0
	for _, page := range append(files(t, ".md"), files(t, ".go")...) {
		if strings.HasSuffix(page, "_test.go") {
			continue
		}
		for _, m := range run.FindAllStringSubmatch(read(t, page), -1) {
			dir := strings.TrimSuffix(strings.TrimRight(m[3], ".,;:"), "/...")
			if dir = strings.TrimSuffix(dir, "/.."); dir == "" || strings.Contains(dir, "%") {
				continue
			}
			found++
			if info, err := os.Stat(filepath.Join(root, m[1], dir)); err != nil || !info.IsDir() {
				t.Errorf("%s has %q, but there is no folder %s", page, m[0], filepath.Join(m[1], dir))
			}
		}
	}
	if found < 50 {
		t.Errorf("found %d commands", found)
	}
}

var (
	testName = regexp.MustCompile(`\b(?:Test|Example|Fuzz|Benchmark)_?[A-Z]\w+`)
	testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Example|Fuzz|Benchmark)\w+)\(`)
)

// TestTests looks for the tests that pages name.
func TestTests(t *testing.T) {
	exist := map[string]bool{}
	for _, file := range files(t, "_test.go") {
		for _, m := range testFunc.FindAllStringSubmatch(read(t, file), -1) {
			exist[m[1]] = true
		}
	}
	for _, page := range files(t, ".md") {
		for _, name := range testName.FindAllString(prose(read(t, page)), -1) {
			if !exist[name] {
				t.Errorf("%s names %s, which is no test", page, name)
			}
		}
	}
}

var goBlock = regexp.MustCompile("(?ms)^```go\n(.*?)^```")

// TestQuoted: programs and tests that pages show are those that are run.
func TestQuoted(t *testing.T) {
	for page, sources := range map[string][]string{
		"README.md":       {"examples/broker/main.go"},
		"docs/testing.md": {"examples/broker/main_test.go", "adapters/idletest/guide_test.go"},
	} {
		all := ""
		for _, s := range sources {
			all += read(t, s)
		}
		blocks := goBlock.FindAllStringSubmatch(read(t, page), -1)
		if page == "README.md" {
			blocks = blocks[1:2] // TestFirstProgram and TestSnippets compile the others
		}
		for _, block := range blocks {
			if !strings.Contains(all, block[1]) {
				t.Errorf("%s shows code that %v don't have:\n%s", page, sources, block[1])
			}
		}
	}
}

// TestLength: a newcomer reads the README in minutes, and DESIGN in half an hour. An operator has no time.
func TestLength(t *testing.T) {
	words, decisions, all := map[string]int{}, 0, 0
	for _, page := range files(t, ".md") {
		n := len(strings.Fields(read(t, page)))
		if words[page] = n; strings.HasPrefix(page, "docs/decisions/") {
			decisions += n
		}
		all += n
	}
	words["docs/decisions"], words["all pages"] = decisions, all
	for page, most := range map[string]int{
		"README.md": 900, "DESIGN.md": 3000, "SECURITY.md": 1000, "CONTRIBUTING.md": 1200,
		"docs/correctness.md": 1500, "docs/operations.md": 2200, "docs/decisions": 3000, "all pages": 22_000,
	} {
		if n := words[page]; n > most || n == 0 {
			t.Errorf("%s: %d words; there may be %d", page, n, most)
		}
	}
}
