package idlenet

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

// fionread is FIONREAD of winsock2.h.
const fionread = 0x4004667f

// inspect asks for unread input.
func inspect(fd uintptr) (r report, ok bool) {
	var unread, size uint32
	err := windows.WSAIoctl(windows.Handle(fd), fionread, nil, 0,
		(*byte)(unsafe.Pointer(&unread)), uint32(unsafe.Sizeof(unread)), &size, nil, 0)
	r.unread = err == nil && unread > 0
	return r, err == nil
}
