// SPDX-License-Identifier: Apache-2.0

package memstore_test

import (
	"errors"
	"fmt"

	"github.com/softroce/softroce-xdp/mempool/vmm"
	"github.com/softroce/softroce-xdp/mempool/vmm/memstore"
)

// A store that fails READs shows what an application sees of it.
func Example() {
	store := &memstore.Store{}
	r, err := vmm.NewRegion(vmm.Config{Size: 1 << 20, Local: 64 << 10}, store)
	if err != nil {
		panic(err)
	}
	defer r.Close()
	if _, err := r.WriteAt(make([]byte, 1<<20), 0); err != nil {
		panic(err)
	}
	store.SetErrors(func(page int64) error { return errors.New("the server is gone") }, nil)
	_, err = r.ReadAt(make([]byte, 10), 0)
	fmt.Println(err)

	// Output:
	// vmm: page at offset 0x0: the server is gone
}
