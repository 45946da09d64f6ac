package kernel

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

// fionread is FIONREAD of winsock2.h.
const fionread = 0x4004667f

// SeesOutput is whether Inspect reports on output.
const SeesOutput = false

// Inspect asks for unread input.
func Inspect(fd uintptr) (r Report) {
	var unread, size uint32
	err := windows.WSAIoctl(windows.Handle(fd), fionread, nil, 0,
		(*byte)(unsafe.Pointer(&unread)), uint32(unsafe.Sizeof(unread)), &size, nil, 0)
	r.Unread = err == nil && unread > 0
	return r
}
