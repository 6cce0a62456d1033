// SPDX-License-Identifier: Apache-2.0

package clientmem

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/internal/testkit"
)

// threadFiles are the files of a thread as the kernel has them.
type threadFiles struct{ syscall, schedstat string }

// A process delays an access if a thread waits inside the access, or uses a processor.
func TestDelays(t *testing.T) {
	const mem = 7
	pwrite := fmt.Sprintf("%d 0x7 0xc000012000 0x1000 0x7f0000 0x0 0x0 0x7ffe 0x7fee\n", unix.SYS_PWRITE64)
	pread := fmt.Sprintf("%d 0x7 0xc000012000 0x1000 0x7f0000 0x0 0x0 0x7ffe 0x7fee\n", unix.SYS_PREAD64)
	another := fmt.Sprintf("%d 0x8 0xc000012000 0x1000 0x7f0000 0x0 0x0 0x7ffe 0x7fee\n", unix.SYS_PWRITE64)
	for _, c := range []struct {
		name  string
		after time.Duration
		files []threadFiles // then; before, no thread has run
		want  bool
	}{
		{"threads wait for a processor", 50 * time.Millisecond, []threadFiles{{"running\n", "5 0 2\n"}, {another, "5 0 2\n"}}, false},
		{"a write waits", 50 * time.Millisecond, []threadFiles{{pwrite, "5 0 2\n"}}, true},
		{"a read waits", 50 * time.Millisecond, []threadFiles{{"running\n", "5 0 2\n"}, {pread, "5 0 2\n"}}, true},
		{"a read waits, long after the last sample", time.Minute, []threadFiles{{pread, "5 0 2\n"}}, true},
		{"a thread runs", 50 * time.Millisecond, []threadFiles{{"running\n", "30000000 0 2\n"}}, true},
		{"a thread has run, long after the last sample", time.Minute, []threadFiles{{"running\n", "50000000000 0 2\n"}}, false},
		{"a thread has ended", 50 * time.Millisecond, []threadFiles{{"", ""}, {"running\n", "5 0 2\n"}}, false},
		{"a kernel without schedstat", 50 * time.Millisecond, []threadFiles{{"running\n", ""}}, true},
		{"a kernel without syscall", 50 * time.Millisecond, []threadFiles{{"", "5 0 2\n"}}, true},
		{"other files", 50 * time.Millisecond, []threadFiles{{"running\n", "x y z\n"}}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := threads{dir: t.TempDir()}
			now := time.Unix(1, 0)
			r.delayed(now, mem)
			for i, f := range c.files {
				dir := filepath.Join(r.dir, fmt.Sprint(100+i))
				if f == (threadFiles{}) { // as a thread that ends after the directory was read
					testkit.Must(t, os.Symlink("nowhere", dir))
					continue
				}
				testkit.Must(t, os.Mkdir(dir, 0o755))
				for name, text := range map[string]string{"syscall": f.syscall, "schedstat": f.schedstat} {
					if text != "" {
						testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
					}
				}
			}
			if got := r.delayed(now.Add(c.after), mem); got != c.want {
				t.Errorf("delayed: %v, want %v", got, c.want)
			}
		})
	}
	missing := threads{dir: filepath.Join(t.TempDir(), "none")}
	if !missing.delayed(time.Unix(1, 0), mem) {
		t.Error("not delayed without the files of threads")
	}
}
