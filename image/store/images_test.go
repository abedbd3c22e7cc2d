//go:build linux

package store_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"
)

// tarOf packs files as a layer. Its arguments are a file's name, the file's content, the next name, and so on.
func tarOf(files ...string) []byte {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for i := 0; i < len(files); i += 2 {
		w.WriteHeader(&tar.Header{Name: files[i], Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(files[i+1]))})
		w.Write([]byte(files[i+1]))
	}
	w.Close()
	return out.Bytes()
}

func gz(data []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	w.Write(data)
	w.Close()
	return out.Bytes()
}

func zst(data []byte) []byte {
	w, _ := zstd.NewWriter(nil)
	return w.EncodeAll(data, nil)
}

func same(data []byte) []byte { return data }

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// made is an image in the form of blobs.
type made struct {
	manifest, config []byte
	layers           [][]byte
}

// makeImage creates an image from layers; pack compresses each layer.
func makeImage(t testing.TB, pack func([]byte) []byte, change func(*v1.ConfigFile, *v1.Manifest),
	layers ...[]byte,
) made {
	t.Helper()
	c := &v1.ConfigFile{Architecture: runtime.GOARCH, OS: "linux", RootFS: v1.RootFS{Type: "layers"}}
	m := &v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1}
	img := made{}
	for _, l := range layers {
		packed := pack(l)
		diff, _ := v1.NewHash(digest(l))
		blob, _ := v1.NewHash(digest(packed))
		c.RootFS.DiffIDs = append(c.RootFS.DiffIDs, diff)
		m.Layers = append(m.Layers, v1.Descriptor{MediaType: types.OCILayer, Size: int64(len(packed)), Digest: blob})
		img.layers = append(img.layers, packed)
	}
	if change != nil {
		change(c, m)
	}
	var err error
	if img.config, err = json.Marshal(c); err != nil {
		t.Fatal(err)
	}
	m.Config.Digest, _ = v1.NewHash(digest(img.config))
	m.Config.Size, m.Config.MediaType = int64(len(img.config)), types.OCIConfigJSON
	if img.manifest, err = json.Marshal(m); err != nil {
		t.Fatal(err)
	}
	return img
}

// layout writes the image as an OCI archive.
func (m made) layout(t testing.TB, name string) []byte {
	t.Helper()
	hash, _ := v1.NewHash(digest(m.manifest))
	index, err := json.Marshal(v1.IndexManifest{SchemaVersion: 2, Manifests: []v1.Descriptor{{
		MediaType: types.OCIManifestSchema1, Digest: hash, Size: int64(len(m.manifest)),
		Annotations: map[string]string{"org.opencontainers.image.ref.name": name},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	files := []string{"oci-layout", "{}", "index.json", string(index)}
	for _, b := range append([][]byte{m.manifest, m.config}, m.layers...) {
		files = append(files, "blobs/sha256/"+strings.TrimPrefix(digest(b), "sha256:"), string(b))
	}
	return tarOf(files...)
}

// docker writes the image in docker save's format from before OCI layouts.
func (m made) docker(t testing.TB, name string) []byte {
	t.Helper()
	files := []string{}
	var layers []string
	for i, l := range m.layers {
		layers = append(layers, fmt.Sprintf("%d/layer.tar", i))
		files = append(files, layers[i], string(l))
	}
	list, err := json.Marshal([]map[string]any{{"Config": "config.json", "RepoTags": []string{name}, "Layers": layers}})
	if err != nil {
		t.Fatal(err)
	}
	return tarOf(append(files, "config.json", string(m.config), "manifest.json", string(list))...)
}
