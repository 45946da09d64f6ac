package usage

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestSumThreads(t *testing.T) {
	dir := t.TempDir()
	write := func(thread, stat string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(dir, thread), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, thread, "schedstat"), []byte(stat), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("10", "0 0 0")
	if _, err := sumThreads(dir); err == nil {
		t.Error("no error though no time was counted")
	}
	write("11", "1000 5 1")
	write("12", "2000000 5 1")
	if err := os.Mkdir(filepath.Join(dir, "13"), 0o755); err != nil { // has ended
		t.Fatal(err)
	}
	if d, err := sumThreads(dir); err != nil || d != 2001*time.Microsecond {
		t.Errorf("got %v, %v", d, err)
	}
}
