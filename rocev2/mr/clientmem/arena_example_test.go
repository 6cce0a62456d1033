// SPDX-License-Identifier: Apache-2.0

package clientmem_test

import (
	"fmt"
	"log"
	"syscall"

	"github.com/softroce/softroce-xdp/rocev2/mr/clientmem"
)

// Both sides are in one process here; otherwise the descriptor goes over a UNIX socket.
func Example_arena() {
	application, err := clientmem.CreateArena(1 << 20)
	if err != nil {
		log.Fatal(err)
	}
	defer application.Close()
	buf, err := application.Alloc(4096)
	if err != nil {
		log.Fatal(err)
	}
	offset, _ := application.Offset(buf)

	fd, err := syscall.Dup(application.FD())
	if err != nil {
		log.Fatal(err)
	}
	nic, err := clientmem.OpenArena(fd, 1<<30)
	if err != nil {
		log.Fatal(err)
	}
	defer nic.Close()
	b, err := nic.Slice(offset, 4096)
	if err != nil {
		log.Fatal(err)
	}
	copy(b, "received")
	fmt.Printf("%s\n", buf[:8])
	_, err = nic.Slice(offset, 1<<20+1)
	fmt.Println(err)
	// Output:
	// received
	// arena: impossible memory range: 1048577 bytes at offset 0 of an arena of 1048576 bytes
}
