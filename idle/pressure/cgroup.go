package pressure

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"
)

// Cgroup returns which share of the memory limit of the process's cgroup, such as a container's,
// is in use. Of all cgroups that the process is in, from its own up to the root, the fullest
// counts. Both versions of cgroups are supported.
//
// Cached files that haven't been used lately don't count, because the kernel drops them when it
// needs memory. Cgroup fails if no cgroup has a limit, and on systems other than Linux.
func Cgroup() (float64, error) {
	if runtime.GOOS != "linux" {
		return 0, unsupported("memory of cgroups")
	}
	return fullest(os.DirFS("/"))
}

// A hierarchy is a version of cgroups.
type hierarchy struct {
	root        string // where the kernel's cgroups usually are
	used, limit string // names of files
	inactive    string // the line of memory.stat with the memory of files that can be dropped
	noLimit     string // in limit
}

var (
	// In version 1 a limit that is not set is the highest number of pages.
	v1 = hierarchy{"sys/fs/cgroup/memory", "memory.usage_in_bytes", "memory.limit_in_bytes", "total_inactive_file", ""}
	v2 = hierarchy{"sys/fs/cgroup", "memory.current", "memory.max", "inactive_file", "max"}
)

// unlimited is more memory than a machine has. Version 1 has no other word for no limit.
const unlimited = 1 << 60

// fullest is Cgroup in the file system root.
func fullest(root fs.FS) (float64, error) {
	list, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return 0, fmt.Errorf("pressure: %w", err)
	}
	most, found := 0.0, false
	for line := range strings.Lines(string(list)) {
		// hierarchy-ID:controller-list:cgroup-path, as cgroups(7) says
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 {
			continue
		}
		var h *hierarchy
		switch {
		case parts[1] == "":
			h = &v2
		case strings.Contains(","+parts[1]+",", ",memory,"):
			h = &v1
		default:
			continue
		}
		// In a container the path may be the host's, and only the end of it exists here.
		// Directories that don't exist are left out.
		for dir := path.Join("/", parts[2]); ; dir = path.Dir(dir) {
			s, ok, err := h.share(root, path.Join(h.root, dir))
			if err != nil {
				return 0, fmt.Errorf("pressure: %w", err)
			}
			if ok {
				most, found = max(most, s), true
			}
			if dir == "/" {
				break
			}
		}
	}
	if !found {
		return 0, errors.New("pressure: no cgroup of the process has a memory limit; set one, such as the memory limit of the container")
	}
	return most, nil
}

// share returns which share of its limit the cgroup in dir has in use. It returns false
// if there is no limit, or no such cgroup.
func (h *hierarchy) share(root fs.FS, dir string) (s float64, ok bool, err error) {
	text, err := fs.ReadFile(root, path.Join(dir, h.limit))
	if errors.Is(err, fs.ErrNotExist) || err == nil && string(bytes.TrimSpace(text)) == h.noLimit {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	limit, err := number(path.Join(dir, h.limit), text)
	if err != nil || limit >= unlimited {
		return 0, false, err
	}
	text, err = fs.ReadFile(root, path.Join(dir, h.used))
	if err != nil {
		return 0, false, err
	}
	used, err := number(path.Join(dir, h.used), text)
	if err != nil {
		return 0, false, err
	}
	used -= min(used, h.droppable(root, dir))
	return share(used, limit), true, nil
}

// droppable returns how much memory in use the kernel can do without, or 0 if it does
// not tell.
func (h *hierarchy) droppable(root fs.FS, dir string) uint64 {
	text, err := fs.ReadFile(root, path.Join(dir, "memory.stat"))
	if err != nil {
		return 0
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		if name, value, _ := strings.Cut(lines.Text(), " "); name == h.inactive {
			n, _ := strconv.ParseUint(value, 10, 64)
			return n
		}
	}
	return 0
}

// number reads the number that a file holds.
func number(name string, text []byte) (uint64, error) {
	n, err := strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s holds %q, which is no number", name, text)
	}
	return n, nil
}
