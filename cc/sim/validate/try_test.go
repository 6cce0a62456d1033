package validate

import (
	"fmt"
	"os"
	"testing"
	"time"
)

func TestTry(t *testing.T) {
	for i := range completions {
		c := completions[i]
		if os.Getenv("TRY") != fmt.Sprint(i) {
			continue
		}
		scale := .25
		fmt.Sscan(os.Getenv("SCALE"), &scale)
		start := time.Now()
		rows, err := c.run(scale, func(s string) { t.Log(time.Since(start).Round(time.Millisecond), s) })
		if err != nil {
			t.Fatal(err)
		}
		Table(os.Stdout, rows)
	}
}
