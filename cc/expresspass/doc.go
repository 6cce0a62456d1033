// SPDX-License-Identifier: Apache-2.0

// Package expresspass is ExpressPass (Cho et al., SIGCOMM 2017), data that waits
// for credit packets that switches rate-limit, as pure state
// machines for comparison with the product's own policies. Credits is the
// receiver's side of a flow, Sender the other. They use floats, keep no clock and
// draw no random numbers. Times are nanoseconds.
//
// Facts are from the paper and from its simulator, kaist-ina/ns2-xpass. As an
// option a sender fills the first round trip, in which ExpressPass waits, with
// packets that switches drop first (Aeolus, Hu et al., SIGCOMM 2020).
package expresspass
