//go:build linux

package store_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/image"
	"github.com/capstan-dev/capstan/image/archive"
	"github.com/capstan-dev/capstan/image/store"
)

// disk mounts a disk of a size.
func disk(t *testing.T, size string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to mount a small disk")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "nr_inodes=0,size="+size); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// noise returns text that can't be compressed.
func noise(size int) string {
	data := make([]byte, size)
	rand.NewChaCha8([32]byte{}).Read(data)
	return string(data)
}

// TestADiskThatFillsUpWhileUnpacking loads an image whose packed layer fits on the disk, but not the unpacked one. The
// error says so, only the store's own files are left, and an image that fits can be loaded afterwards.
func TestADiskThatFillsUpWhileUnpacking(t *testing.T) {
	dir := filepath.Join(disk(t, "24m"), "images")
	s := open(t, store.Options{Dir: dir})
	kept := load(t, s, makeImage(t, same, nil, tarOf("a", noise(1<<20))).layout(t, "kept:1"))
	// After adding an image, the store syncs it and records that in the background. Close waits for this.
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, store.Options{Dir: dir})
	before := leftovers(t, dir)
	big := makeImage(t, gz, nil, tarOf("a", noise(8<<20), "b", noise(8<<20))).layout(t, "big:1")
	_, err := archive.Load(context.Background(), s, bytes.NewReader(big), "", func(string) {})
	var typed *image.Error
	if !errors.As(err, &typed) || typed.Code != image.CodeNoSpace || typed.Advice == "" ||
		!strings.Contains(err.Error(), "layer 1 of 1") {
		t.Errorf("error %v", err)
	}
	if after := leftovers(t, dir); after != before {
		t.Errorf("the store has %q, and had %q", after, before)
	}
	if err := s.Complete(context.Background(), kept[0].Digest); err != nil {
		t.Errorf("the image that was loaded before: %v", err)
	}
	load(t, s, makeImage(t, gz, nil, tarOf("b", noise(4<<20))).layout(t, "small:1"))
}

// TestAMillionFiles loads an image of a million files (make test-million-files): the store refuses the image at the
// limit, uses little memory, and keeps nothing of the image.
func TestAMillionFiles(t *testing.T) {
	if os.Getenv("CAPSTAN_TEST_FILES") == "" {
		t.Skip("takes long: make test-million-files runs it")
	}
	const files, memory, limit = 1_000_000, 96 << 20, 5 * time.Minute
	var packed bytes.Buffer
	z, _ := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	w := tar.NewWriter(z)
	for i := range files {
		name := fmt.Sprintf("d%d/f%d", i/1000, i)
		if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	// The content does not match the layer's diff id, but the store does not read it to the end.
	img := makeImage(t, func([]byte) []byte { return packed.Bytes() }, nil, []byte("files")).layout(t, "million:1")
	packed = bytes.Buffer{}
	dir := filepath.Join(disk(t, "2g"), "images")
	s := open(t, store.Options{Dir: dir})

	before, peak, done := heap(), uint64(0), make(chan error)
	began := time.Now()
	go func() {
		_, err := archive.Load(context.Background(), s, io.Reader(bytes.NewReader(img)), "", func(string) {})
		done <- err
	}()
	var err error
	for running := true; running; {
		select {
		case err = <-done:
			running = false
		case <-time.After(20 * time.Millisecond):
			peak = max(peak, heap())
		}
	}
	took := time.Since(began)
	t.Logf("refused after %s with %d MiB more memory: %v", took.Round(time.Millisecond), int64(peak-before)>>20, err)
	if err == nil || !strings.Contains(err.Error(), "more than 500000 files") {
		t.Errorf("error %v", err)
	}
	if peak > before+memory || took > limit {
		t.Errorf("the refusal took %s and %d MiB", took, (peak-before)>>20)
	}
	if left := leftovers(t, dir); left != "" {
		t.Errorf("the store has %q", left)
	}
}

// heap returns the bytes of the heap that are in use.
func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}
