package archive

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
)

// Folder is a [Target]: a folder of a file system. Each object is a file of the same name. The
// program never creates the folder itself: if the disk of the archive is not mounted, the files
// would fill the disk below.
type Folder string

// Write implements [Target]. The file gets its name after all its bytes are on disk.
func (f Folder) Write(ctx context.Context, name string, content []byte) error {
	return f.within(ctx, func(root *os.Root) error {
		temporary := path.Join(path.Dir(name), temporaryPrefix+path.Base(name))
		if err := root.MkdirAll(path.Dir(name), 0o700); err != nil {
			return err
		}
		file, err := root.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return err
		}
		_, err = file.Write(content)
		if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
			err = root.Rename(temporary, name)
		}
		if err != nil {
			return errors.Join(err, root.Remove(temporary))
		}
		return syncFolder(root, path.Dir(name))
	})
}

// errAway means that the folder cannot be opened, so it is unknown whether an object exists.
var errAway = errors.New("the archive is away")

// temporaryPrefix begins the name of a file that is still being written.
const temporaryPrefix = ".writing-"

// within runs do in the folder, unless ctx has ended.
func (f Folder) within(ctx context.Context, do func(*os.Root) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	root, err := os.OpenRoot(string(f))
	if err != nil {
		return fmt.Errorf("%w: %w", errAway, err)
	}
	return errors.Join(do(root), root.Close())
}

// syncFolder syncs a folder and its parents, so that the new names survive a power cut.
func syncFolder(root *os.Root, name string) error {
	for {
		folder, err := root.Open(name)
		if err != nil {
			return err
		}
		if err := errors.Join(folder.Sync(), folder.Close()); err != nil || name == "." {
			return err
		}
		name = path.Dir(name)
	}
}

// Read implements [Target].
func (f Folder) Read(ctx context.Context, name string) (content []byte, err error) {
	err = f.within(ctx, func(root *os.Root) (err error) {
		content, err = root.ReadFile(name)
		return err
	})
	return content, err
}

// List implements [Target]. It deletes temporary files whose writer has died.
func (f Folder) List(ctx context.Context, prefix string) (names []string, err error) {
	err = f.within(ctx, func(root *os.Root) error {
		entries, err := fs.ReadDir(root.FS(), strings.TrimSuffix(prefix, "/"))
		if isGone(err) {
			return nil
		}
		for _, e := range entries {
			switch {
			case strings.HasPrefix(e.Name(), temporaryPrefix):
				err = errors.Join(err, root.Remove(path.Join(prefix, e.Name())))
			case !e.IsDir():
				names = append(names, path.Join(prefix, e.Name()))
			}
		}
		return err
	})
	return names, err
}

// Delete implements [Target].
func (f Folder) Delete(ctx context.Context, name string) error {
	return f.within(ctx, func(root *os.Root) error {
		if err := root.Remove(name); !isGone(err) {
			return err
		}
		return nil
	})
}
