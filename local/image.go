package local

import (
	"context"

	"github.com/capstan-dev/capstan/image/client"
	"github.com/capstan-dev/capstan/internal/home"
)

// ImageStore is the name of the program that stores the images of a dock.
const ImageStore = "capstan-images"

// Images connects to the image store of a place, which all hosts of its dock share. If no dock is running, Images
// starts the store's program for as long as the client is open. The caller must close the client.
func Images(ctx context.Context, p Place) (*client.Client, error) {
	dir, err := homeDir(p.Home)
	if err != nil {
		return nil, err
	}
	binary, err := home.Binaries(p.Binaries).Path(ImageStore)
	if err != nil {
		return nil, err
	}
	if _, err := dir.Prepare(); err != nil {
		return nil, err
	}
	return client.Connect(ctx, dir.Images(), binary)
}
