package pressure

import (
	"strings"
	"testing"
	"testing/fstest"
)

// files makes a file system of paths and texts.
func files(pairs ...string) fstest.MapFS {
	root := fstest.MapFS{}
	for i := 0; i < len(pairs); i += 2 {
		root[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1])}
	}
	return root
}

const highest = "9223372036854771712\n" // version 1: no limit

func TestCgroup(t *testing.T) {
	for name, test := range map[string]struct {
		files fstest.MapFS
		want  float64
	}{
		"version 2, in a container": {files(
			"proc/self/cgroup", "0::/\n",
			"sys/fs/cgroup/memory.max", "1000\n", "sys/fs/cgroup/memory.current", "400\n",
			"sys/fs/cgroup/memory.stat", "anon 300\nfile 90\ninactive_file 50\nactive_file 40\n",
		), 0.35},
		"version 2, without memory.stat": {files(
			"proc/self/cgroup", "0::/\n", "sys/fs/cgroup/memory.max", "1000\n", "sys/fs/cgroup/memory.current", "400\n",
		), 0.4},
		"version 2, limited above": {files(
			"proc/self/cgroup", "0::/a.slice/b.service\n",
			"sys/fs/cgroup/a.slice/b.service/memory.max", "max\n", "sys/fs/cgroup/a.slice/b.service/memory.current", "99\n",
			"sys/fs/cgroup/a.slice/memory.max", "200\n", "sys/fs/cgroup/a.slice/memory.current", "150\n",
		), 0.75},
		"version 2, the fullest counts": {files(
			"proc/self/cgroup", "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max", "100\n", "sys/fs/cgroup/a/b/memory.current", "90\n",
			"sys/fs/cgroup/a/memory.max", "200\n", "sys/fs/cgroup/a/memory.current", "100\n",
		), 0.9},
		"version 1 beside others": {files(
			"proc/self/cgroup", "9:name=systemd:/\n5:devices:/x\n4:cpu,memory:/docker/1\n0::/\n",
			"sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes", "1000\n", "sys/fs/cgroup/memory/docker/1/memory.usage_in_bytes", "700\n",
			"sys/fs/cgroup/memory/docker/1/memory.stat", "inactive_file 1\ntotal_inactive_file 200\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes", highest, "sys/fs/cgroup/memory/memory.usage_in_bytes", "5000\n",
		), 0.5},
		"version 1, the path is the host's": {files(
			"proc/self/cgroup", "4:memory:/docker/1\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes", "1000\n", "sys/fs/cgroup/memory/memory.usage_in_bytes", "800\n",
		), 0.8},
		"over the limit": {files(
			"proc/self/cgroup", "0::/\n", "sys/fs/cgroup/memory.max", "1000\n", "sys/fs/cgroup/memory.current", "1100\n",
		), 1},
		"a path from outside, and with colons": {files(
			"proc/self/cgroup", "0::/../a:b\n", "sys/fs/cgroup/a:b/memory.max", "1000\n", "sys/fs/cgroup/a:b/memory.current", "100\n",
		), 0.1},
		"more to drop than is in use": {files(
			"proc/self/cgroup", "0::/\n", "sys/fs/cgroup/memory.max", "1000\n", "sys/fs/cgroup/memory.current", "400\n",
			"sys/fs/cgroup/memory.stat", "inactive_file 500\n",
		), 0},
	} {
		if got, err := fullest(test.files); got != test.want || err != nil {
			t.Errorf("%s: got %v, %v; want %v", name, got, err, test.want)
		}
	}
}

func TestCgroupWithoutLimit(t *testing.T) {
	const list, limit, used = "proc/self/cgroup", "sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory.current"
	for want, f := range map[string]fstest.MapFS{
		"no cgroup of the process has a memory limit":                files(list, "0::/a\n3:cpu:/\n", limit, "max\n", used, "9\n"),
		"no cgroup of the process has a memory limit; set":           files(list, "4:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes", highest),
		"no cgroup of the process has a memory limit; set one":       files(list, ""),
		"no cgroup of the process has a memory limit; set one, such": files(list, "nonsense\n"),
		"open proc/self/cgroup":                                      files(),
		`memory.max holds "lots"`:                                    files(list, "0::/\n", limit, "lots", used, "9\n"),
		`memory.current holds "-1"`:                                  files(list, "0::/\n", limit, "10", used, "-1"),
		"open sys/fs/cgroup/memory.current: file does not exist":     files(list, "0::/\n", limit, "10"),
	} {
		if got, err := fullest(f); err == nil || !strings.HasPrefix(err.Error(), "pressure: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, %v; want %s", got, err, want)
		}
	}
}
