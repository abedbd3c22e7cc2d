package enrol

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/internal/enrolment"
)

func TestPace(t *testing.T) {
	content := bytes.Repeat([]byte("bundle"), paceBurst)
	waited, largest := 0, 0
	var p pace = func(_ context.Context, n int) error {
		waited, largest = waited+n, max(largest, n)
		return nil
	}
	file := p.of(t.Context(), bytes.NewReader(content))
	if _, err := file.Seek(6, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	// The buffer is as large as the rest of the file, but no read exceeds paceBurst.
	got := make([]byte, len(content)-6)
	if _, err := io.ReadFull(file, got); err != nil || !bytes.Equal(got, content[6:]) {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
	if waited != len(content)-6 || largest > paceBurst {
		t.Errorf("the pace counted %d of %d bytes, at most %d at once", waited, len(content)-6, largest)
	}
}

func TestAPacedReadEndsWithItsRequest(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	file := newPace(1).of(ctx, strings.NewReader("bundle"))
	if n, err := file.Read(make([]byte, 6)); !errors.Is(err, context.Canceled) {
		t.Errorf("after the request has ended: read %d bytes with error %v, want context.Canceled", n, err)
	}
	plain := strings.NewReader("bundle")
	if newPace(0).of(ctx, plain) != io.ReadSeeker(plain) {
		t.Error("without a limit, the file is not returned unchanged")
	}
}

// TestBandwidth measures real transfers: two hosts that download at the same time together stay within the limit, and
// do not wait much longer than the limit requires.
func TestBandwidth(t *testing.T) {
	const bandwidth, size = 8 << 20, 6 << 20 // size is what each host downloads
	path := filepath.Join(t.TempDir(), "bundle")
	if err := os.WriteFile(path, bytes.Repeat([]byte{7}, size), 0o600); err != nil {
		t.Fatal(err)
	}
	f := newFrontWith(t, nil, func(o *Options) {
		o.Known = func(context.Context, string) (bool, error) { return true, nil }
		o.Bundle = func(string, string) (*os.File, error) { return os.Open(path) }
		o.BundleBandwidth = bandwidth
	})
	began := time.Now()
	got := make(chan int64, 2)
	for range cap(got) {
		host := f.client(t, true)
		go func() {
			response, err := host.Get(f.url + enrolment.BundlePath + "v1.36.3/linux/amd64")
			if err != nil {
				t.Error(err)
				got <- 0
				return
			}
			defer response.Body.Close()
			n, err := io.Copy(io.Discard, response.Body)
			if err != nil {
				t.Error(err)
			}
			got <- n
		}()
	}
	if a, b := <-got, <-got; a != size || b != size {
		t.Fatalf("the hosts got %d and %d bytes, want %d each", a, b, size)
	}
	took := time.Since(began)
	rate := float64(2*size) / took.Seconds()
	t.Logf("two hosts got %d MiB in %s: %.2f MiB/s, with a limit of %d MiB/s", 2*size>>20, took, rate/(1<<20),
		bandwidth>>20)
	if most := bandwidth * 1.1; rate > most {
		t.Errorf("the hosts got %.0f bytes per second, more than the limit of %d", rate, bandwidth)
	}
	if took > 30*time.Second {
		t.Errorf("the transfers took %s, much longer than the limit requires", took)
	}
}
