package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/printer"
	"go/token"
	"hash/fnv"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// measured says of what the results are.
type measured struct {
	Commit       string   `json:"commit"`
	Date         string   `json:"date"`
	Declarations []string `json:"declarations"` // a hash for each, without comments, sorted
}

// A share says how many declarations have changed.
type share struct{ Changed, Of int }

// tooMany reports whether results are older than what they measure. Small changes are
// allowed, so that not every commit needs new results. A release wants none.
func (s share) tooMany() bool { return s.Changed > s.Of/10 }

// stale compares what was measured with the sources as they are.
func stale(ctx context.Context, was measured) (share, error) {
	now, err := declarations(ctx)
	if err != nil {
		return share{}, err
	}
	return share{changes(was.Declarations, now), len(now)}, nil
}

// changes returns how many entries of two sorted lists differ: those that were removed or
// those that were added, whichever are more.
func changes(old, now []string) int {
	same := 0
	for i, j := 0, 0; i < len(old) && j < len(now); {
		switch strings.Compare(old[i], now[j]) {
		case 0:
			same, i, j = same+1, i+1, j+1
		case -1:
			i++
		default:
			j++
		}
	}
	return max(len(old), len(now)) - same
}

// declarations returns a hash for each declaration in the packages of the library that peers,
// e2e and loadtest are built from, on Linux.
func declarations(ctx context.Context) (all []string, err error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-deps", "-json=ImportPath,Dir,GoFiles", "./peers", "./e2e", "./loadtest")
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64")
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	for list := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath, Dir string
			GoFiles         []string
		}
		if err := list.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		of, ours := strings.CutPrefix(p.ImportPath, "github.com/idlewheel/idlewheel/")
		if !ours || strings.HasPrefix(of, "bench/") {
			continue
		}
		for _, file := range p.GoFiles {
			hashes, err := hashes(filepath.Join(p.Dir, file))
			if err != nil {
				return nil, err
			}
			all = append(all, hashes...)
		}
	}
	slices.Sort(all)
	return all, nil
}

// hashes returns one for each declaration of a file. Comments and line breaks don't count.
func hashes(path string) (all []string, err error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, d := range file.Decls {
		h := fnv.New32a()
		if err := (&printer.Config{Mode: printer.RawFormat}).Fprint(h, files, d); err != nil {
			return nil, err
		}
		all = append(all, fmt.Sprintf("%08x", h.Sum32()))
	}
	return all, nil
}
