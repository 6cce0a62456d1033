// SPDX-License-Identifier: Apache-2.0

package vmm

// trend finds the stride of the accesses that missed local memory, and how many pages to
// prefetch along it. It is the majority-trend prefetcher of Leap (Al Maruf and Chowdhury,
// USENIX ATC 2020): a stride is one that most of the last accesses have, over the shortest
// window of the history that has a majority, so that some accesses in between do not end it.
//
// Accesses to prefetched pages in a map are not seen. One page of each batch, the marker, is
// therefore not installed before it is accessed; that access starts the next batch.
type trend struct {
	history [historyLen]int64 // strides, in pages, a ring
	n       int               // strides in history, counted for ever
	last    int64             // the last page
	stride  int64             // stride of the last batch
	next    int64             // the page after the last batch
	window  int               // pages of the last batch; 0 without one
	max     int               // most pages of a batch
}

const (
	historyLen  = 32
	firstWindow = 4 // length of the shortest window of history, and pages of the first batch
	maxWindow   = 64
)

// batch are pages to prefetch: first, first+stride, and so on.
type batch struct {
	first, stride int64
	pages         int
}

// miss is called for an access to a page that is not local.
func (t *trend) miss(page int64) batch {
	follows := t.window > 0 && page == t.next
	if follows {
		t.push(t.stride)
	} else {
		t.push(page - t.last)
	}
	t.last = page
	stride, ok := t.majority()
	switch {
	case !ok || stride == 0:
		t.window /= 2
		return batch{}
	case follows && stride == t.stride:
		t.window = min(2*t.window, t.max)
	default:
		t.window = min(max(t.window/2, firstWindow), t.max)
	}
	return t.batch(page+stride, stride)
}

// hit is called for an access to a prefetched page. That of a marker starts the next batch.
func (t *trend) hit(page int64, marker bool) batch {
	if t.window > 0 {
		t.push(t.stride)
	} else {
		t.push(page - t.last)
	}
	t.last = page
	if !marker || t.window == 0 {
		return batch{}
	}
	t.window = min(2*t.window, t.max)
	return t.batch(t.next, t.stride)
}

func (t *trend) batch(first, stride int64) batch {
	t.stride, t.next = stride, first+stride*int64(t.window)
	return batch{first: first, stride: stride, pages: t.window}
}

func (t *trend) push(stride int64) {
	t.history[t.n%historyLen] = stride
	t.n++
}

// majority returns the stride of more than half of the last strides, over a window that is
// doubled until it has one (Boyer and Moore's vote, then a count).
func (t *trend) majority() (int64, bool) {
	for w := firstWindow; w <= historyLen && w <= t.n; w *= 2 {
		var candidate int64
		votes := 0
		for i := range w {
			switch s := t.at(i); {
			case votes == 0:
				candidate, votes = s, 1
			case s == candidate:
				votes++
			default:
				votes--
			}
		}
		count := 0
		for i := range w {
			if t.at(i) == candidate {
				count++
			}
		}
		if 2*count > w {
			return candidate, true
		}
	}
	return 0, false
}

// at returns the stride i accesses ago.
func (t *trend) at(i int) int64 { return t.history[(t.n-1-i)%historyLen] }
