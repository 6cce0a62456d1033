// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"fmt"

	spanlist "github.com/softroce/softroce-xdp/internal/spans"
)

// spans hands out ranges of numbers: DDR addresses, or elements of a table.
type spans struct {
	what string // name for errors
	list spanlist.List
}

func newSpans(what string, from, n uint64) spans { return spans{what, spanlist.New(from, n)} }

// take returns the first range of n numbers that begins at a multiple of align.
func (s *spans) take(n, align uint64) (uint64, error) {
	got, ok := s.list.Take(n, align)
	if !ok {
		return 0, fmt.Errorf("card: no %d %s in a row are free", n, s.what)
	}
	return got.From, nil
}

// give takes a range back.
func (s *spans) give(from, n uint64) { s.list.Give(spanlist.Span{From: from, N: n}) }
