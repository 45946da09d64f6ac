package faults

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/idlewheel/idlewheel/adapters/idlegnet"
	"github.com/idlewheel/idlewheel/idle"
)

func init() { children["clocks"] = serveWithClock }

// serveWithClock serves, and sets its wall clock again and again.
func serveWithClock() error {
	if err := stepBy(86400); err != nil {
		return err
	}
	s, _, err := newNetServer(idle.Policy{IdleTimeout: limit, ReadTimeout: limit}, nil, echo)
	if err != nil {
		return err
	}
	g, _, err := newGnetServer(idle.Policy{IdleTimeout: limit, ReadTimeout: limit}, &idlegnet.Options{}, func(c gnet.Conn, b []byte) { c.Write(b) })
	if err != nil {
		return err
	}
	web, _, err := newHTTPServer(hello)
	if err != nil {
		return err
	}
	fmt.Println("listening", s.address, g.address, web)
	go func() {
		steps := []int64{86400, -86400, 0, 3600, -1, 1 << 31}
		for i := 1; ; i++ {
			time.Sleep(limit / 10)
			if err := setOffset(steps[i%len(steps)]); err != nil {
				fmt.Println("error:", err)
			}
			if i == 20 {
				fmt.Println("stepped")
			}
		}
	}()
	untilDismissed()
	return nil
}

// stepBy sets the clock, and makes sure that it is.
func stepBy(seconds int64) error {
	before := time.Now()
	if err := setOffset(seconds); err != nil {
		return err
	}
	want := time.Duration(seconds) * time.Second
	if step := time.Now().Round(0).Sub(before.Round(0)); step < want-time.Minute || step > want+time.Minute {
		return fmt.Errorf("the clock was set by %v, but went %v", want, step)
	}
	return nil
}

// ownClock is the function: it does the system call, and adds the eight bytes
// behind it, which are seconds, if the clock is CLOCK_REALTIME.
var ownClock = []byte{
	0xb8, 0xe4, 0, 0, 0, // mov eax, SYS_clock_gettime
	0x0f, 0x05, // syscall
	0x85, 0xff, // test edi, edi
	0x75, 0x0a, // jne ret
	0x48, 0x8b, 0x15, 0x06, 0, 0, 0, // mov rdx, [rip+6]: the offset
	0x48, 0x01, 0x16, // add [rsi], rdx
	0xc3, // ret
	0, 0, // so that the offset is aligned
	0, 0, 0, 0, 0, 0, 0, 0, // the offset
}

// setOffset sets by how many seconds this process's wall clock is wrong.
func setOffset(seconds int64) error {
	at, err := findClock(os.Getpid())
	if err != nil {
		return err
	}
	offset := at + uint64(len(ownClock)) - 8
	return poke(os.Getpid(), offset, binary.LittleEndian.AppendUint64(nil, uint64(seconds)))
}

func poke(pid int, at uint64, b []byte) error {
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer mem.Close()
	_, err = mem.WriteAt(b, int64(at))
	return err
}

// findClock returns where a process has clock_gettime.
func findClock(pid int) (uint64, error) {
	base, err := findVDSO(pid)
	if err != nil {
		return 0, err
	}
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return 0, err
	}
	defer mem.Close()
	image := make([]byte, 4096)
	if _, err := mem.ReadAt(image, int64(base)); err != nil {
		return 0, err
	}
	more := make([]byte, 4096) // it is one page, or two
	if _, err := mem.ReadAt(more, int64(base)+4096); err == nil {
		image = append(image, more...)
	}
	file, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return 0, err
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return 0, err
	}
	for _, s := range symbols {
		if s.Name == "__vdso_clock_gettime" {
			return base + s.Value, nil
		}
	}
	return 0, errors.New("the vDSO has no clock_gettime")
}

// findVDSO returns where it is, as the process was told at its start.
func findVDSO(pid int) (uint64, error) {
	const sysinfoEhdr = 33
	auxv, err := os.ReadFile(fmt.Sprintf("/proc/%d/auxv", pid))
	if err != nil {
		return 0, err
	}
	for ; len(auxv) >= 16; auxv = auxv[16:] {
		if binary.LittleEndian.Uint64(auxv) == sysinfoEhdr {
			return binary.LittleEndian.Uint64(auxv[8:]), nil
		}
	}
	return 0, errors.New("there is no vDSO")
}
