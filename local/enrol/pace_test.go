package enrol

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
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
	// As large a buffer as the whole file: what is read at once stays within what the limit allows at once.
	got := make([]byte, len(content)-6)
	if _, err := io.ReadFull(file, got); err != nil || !bytes.Equal(got, content[6:]) {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
	if waited != len(content)-6 || largest > paceBurst {
		t.Errorf("waited for %d of %d bytes, at most %d at once", waited, len(content)-6, largest)
	}
}

func TestAPacedReadEndsWithItsRequest(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	file := newPace(1).of(ctx, strings.NewReader("bundle"))
	if n, err := file.Read(make([]byte, 6)); !errors.Is(err, context.Canceled) {
		t.Errorf("%d bytes, %v", n, err)
	}
	plain := strings.NewReader("bundle")
	if newPace(0).of(ctx, plain) != io.ReadSeeker(plain) {
		t.Error("a file without a limit is not read as it is")
	}
}
