package certificate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
)

// ErrConflict means that somebody else has written the store since it was read.
var ErrConflict = errors.New("somebody else changed the store: read it again")

// Store holds a bundle for all replicas of a server.
type Store interface {
	// Load returns the bundle and its version. If there is no bundle yet, it returns an empty one.
	Load(ctx context.Context) (b Bundle, version string, err error)
	// Save replaces the bundle of this version. It returns ErrConflict if the store has another version.
	Save(ctx context.Context, b Bundle, version string) error
}

// InSecret keeps the bundle in a Secret, where an ExtensionConfig finds the authorities, see [Annotation]. The client
// must be allowed to get, create and update the Secret, and its scheme must include Secrets. The client must not read
// from a cache.
func InSecret(client ctrlclient.Client, name types.NamespacedName) Store {
	return &secretStore{client: client, name: name}
}

// Annotation returns the key and value of the annotation with which an ExtensionConfig takes its caBundle from this
// Secret (RC-09).
func Annotation(secret types.NamespacedName) (key, value string) {
	return runtimev1.InjectCAFromSecretAnnotation, secret.String()
}

type secretStore struct {
	client ctrlclient.Client
	name   types.NamespacedName
}

func (s *secretStore) Load(ctx context.Context) (Bundle, string, error) {
	secret := &corev1.Secret{}
	err := s.client.Get(ctx, s.name, secret)
	if apierrors.IsNotFound(err) {
		return Bundle{}, "", nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("reading Secret %s: %w", s.name, err)
	}
	return Bundle(maps.Clone(secret.Data)), secret.ResourceVersion, nil
}

func (s *secretStore) Save(ctx context.Context, b Bundle, version string) error {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.name.Namespace, Name: s.name.Name},
		Type:       corev1.SecretTypeTLS,
	}
	var err error
	if version == "" {
		secret.Data = b
		err = s.client.Create(ctx, secret)
	} else {
		// Keep what others have added to the Secret.
		if err := s.client.Get(ctx, s.name, secret); err != nil {
			return fmt.Errorf("reading Secret %s: %w", s.name, err)
		}
		if secret.ResourceVersion != version {
			return ErrConflict
		}
		if secret.Data == nil {
			secret.Data = map[string][]byte{}
		}
		maps.Copy(secret.Data, b)
		err = s.client.Update(ctx, secret)
	}
	if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) {
		return ErrConflict
	}
	if err != nil {
		return fmt.Errorf("writing Secret %s: %w", s.name, err)
	}
	return nil
}

// InDirectory keeps the bundle in files of a directory, for a server without replicas. The files are written one after
// the other, each atomically. After a crash between two writes they do not match, and the bundle is replaced.
func InDirectory(path string) Store { return directoryStore(path) }

type directoryStore string

func (d directoryStore) Load(context.Context) (Bundle, string, error) {
	b := Bundle{}
	for _, key := range []string{AuthoritiesKey, AuthorityKeysKey, CertificateKey, PrivateKeyKey} {
		data, err := os.ReadFile(filepath.Join(string(d), key))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, "", fmt.Errorf("reading the server's certificate: %w", err)
		}
		b[key] = data
	}
	return b, "", nil
}

func (d directoryStore) Save(_ context.Context, b Bundle, _ string) error {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return fmt.Errorf("writing the server's certificate: %w", err)
	}
	for key, data := range b {
		if err := writeAtOnce(filepath.Join(string(d), key), data); err != nil {
			return fmt.Errorf("writing the server's certificate: %w", err)
		}
	}
	return nil
}

func writeAtOnce(path string, data []byte) error {
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }() // in case it was not renamed
	_, err = file.Write(data)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}
