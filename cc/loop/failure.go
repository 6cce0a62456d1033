// SPDX-License-Identifier: Apache-2.0

package loop

import "time"

// pacerFailure is the last request that the pacer has refused. Times are those of Options.Clock.
type pacerFailure struct {
	err    error
	at     uint64 // time of the last refusal
	logged uint64 // time of the last line in the log
}

// logAgain is the time between two lines in the log about the same failure: with traffic it
// occurs several hundred times in a second.
const logAgain = uint64(time.Minute)

// failureLasts is how long a failure counts as present. After it, the next request succeeds or is
// refused again.
const failureLasts = 2 * uint64(classRetry)

// note records a refusal, and reports whether it belongs into the log.
func (f *pacerFailure) note(err error, now uint64) bool {
	same := f.err != nil && f.err.Error() == err.Error()
	f.err, f.at = err, now
	if same && now-f.logged < logAgain {
		return false
	}
	f.logged = now
	return true
}

// PacerError returns why the pacer refuses the present requests, nil if it does not.
func (l *Loop) PacerError(now uint64) error {
	if l.failed.err == nil || now-l.failed.at > failureLasts {
		return nil
	}
	return l.failed.err
}
