//go:build linux

package store_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/image/archive"
	"github.com/capstan-dev/capstan/image/store"
)

// BenchmarkLoad loads an image of 100 MB, and for comparison unpacks the same layers with tar.
func BenchmarkLoad(b *testing.B) {
	var files []string
	random := rand.NewChaCha8([32]byte{})
	for i := range 2000 {
		block := make([]byte, 25_000)
		random.Read(block)
		files = append(files, fmt.Sprintf("usr/lib/d%d/f%d", i/50, i), hex.EncodeToString(block))
	}
	for name, pack := range map[string]func([]byte) []byte{"plain": same, "gzip": gz} {
		img := makeImage(b, pack, nil, tarOf(files...))
		dir := b.TempDir()
		whole, one := filepath.Join(dir, "image.tar"), filepath.Join(dir, "layer")
		for path, data := range map[string][]byte{whole: img.layout(b, "web:1"), one: img.layers[0]} {
			if err := os.WriteFile(path, data, 0o600); err != nil {
				b.Fatal(err)
			}
		}
		b.Run(name, func(b *testing.B) {
			var ours, tars time.Duration
			for b.Loop() {
				began := time.Now()
				s := open(b, store.Options{Dir: filepath.Join(b.TempDir(), "images")})
				f, err := os.Open(whole)
				if err == nil {
					_, err = archive.Load(context.Background(), s, f, "", func(string) {})
				}
				ours += time.Since(began)
				f.Close()
				to := b.TempDir()
				began = time.Now()
				out, terr := exec.Command("tar", "-xf", one, "-C", to).CombinedOutput()
				tars += time.Since(began)
				if err != nil || terr != nil {
					b.Fatalf("%v, %v: %s", err, terr, out)
				}
			}
			b.ReportMetric(float64(ours)/float64(tars), "times-tar")
		})
	}
}
