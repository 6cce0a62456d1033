// SPDX-License-Identifier: Apache-2.0

package netbench

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
)

// printed is what a program has printed up to now.
type printed struct {
	mu   sync.Mutex
	text strings.Builder
}

func (p *printed) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

func (p *printed) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// patience is how long a program may take to print what it must print.
const patience = 2 * time.Minute

// wait waits until the program has printed a text.
func (p *printed) wait(ctx context.Context, text string) error {
	for end := time.Now().Add(patience); !strings.Contains(p.String(), text); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) || ctx.Err() != nil {
			return fmt.Errorf("the program has not printed %q", text)
		}
	}
	return nil
}
