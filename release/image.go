package main

import (
	"crypto/sha256"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"time"
)

// imageName is the name of the container image, without a registry.
const imageName = "postrider/postrider"

// imageUser is the user of the container. The image names the user by number, because Kubernetes
// compares only the number when it refuses root.
const imageUser = 65532

// image is the container image for one architecture.
type image struct {
	target
	config   []byte
	layers   [][]byte // gzipped tars; a later layer covers the earlier ones
	manifest []byte
}

// descriptor names a blob by its digest.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

// The media types of the OCI image specification 1.1.
const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// image returns the image of a program. It contains no other program: no shell and no C library.
// The lower layer rarely changes; the upper layer has the program.
func (r *release) image(p *program) (*image, error) {
	roots, err := os.ReadFile(r.roots)
	if err != nil {
		return nil, fmt.Errorf("read the certificate authorities of the image: %w", err)
	}
	if block, _ := pem.Decode(roots); block == nil || block.Type != "CERTIFICATE" {
		return nil, fmt.Errorf("%s holds no certificates", r.roots)
	}
	licences, err := r.read(map[string]string{"LICENSE": "licenses/LICENSE"}, 0o644)
	if err != nil {
		return nil, err
	}
	base := []file{
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, body: roots},
		{name: "etc/passwd", mode: 0o644, body: fmt.Appendf(nil,
			"root:x:0:0:root:/:/sbin/nologin\npostrider:x:%[1]d:%[1]d:postrider:/data:/sbin/nologin\n", imageUser)},
		{name: "etc/group", mode: 0o644, body: fmt.Appendf(nil, "root:x:0:\npostrider:x:%d:\n", imageUser)},
		{name: "tmp/", mode: 0o1777},
		{name: "data/", mode: 0o700, owner: imageUser},
	}
	upper := append(licences,
		file{name: "licenses/THIRD_PARTY_LICENSES", mode: 0o644, body: []byte(thirdParties(p.licences))},
		file{name: "usr/bin/postrider", mode: 0o755, body: p.binary})
	built := &image{target: p.target}
	var diffs []string
	for _, files := range [][]file{base, upper} {
		layer, err := packTar("", files, r.time)
		if err != nil {
			return nil, err
		}
		diffs = append(diffs, digest(layer))
		if layer, err = compress(layer); err != nil {
			return nil, err
		}
		built.layers = append(built.layers, layer)
	}
	return built, r.describeImage(built, diffs, digest(roots))
}

// describeImage writes the configuration and the manifest. The settings in Env are defaults, which
// the operator's settings override. A container is reached from outside, so the listeners bind to
// all of its addresses.
func (r *release) describeImage(built *image, diffs []string, roots string) error {
	created := r.time.Format(time.RFC3339)
	var err error
	if built.config, err = json.Marshal(map[string]any{
		"created": created, "architecture": built.arch, "os": built.os,
		"config": map[string]any{
			"User":       fmt.Sprintf("%[1]d:%[1]d", imageUser),
			"Entrypoint": []string{"/usr/bin/postrider"}, "Cmd": []string{"serve"}, "WorkingDir": "/data",
			"Env": []string{
				"PATH=/usr/bin", "POSTRIDER_DATA_DIR=/data", "POSTRIDER_LISTEN=:8080", "POSTRIDER_OPS_LISTEN=:9090",
			},
			"ExposedPorts": map[string]any{"8080/tcp": struct{}{}, "9090/tcp": struct{}{}},
			"Volumes":      map[string]any{"/data": struct{}{}},
			"StopSignal":   "SIGTERM",
			"Labels": map[string]string{
				"org.opencontainers.image.title":       "Postrider",
				"org.opencontainers.image.description": "Stores events durably and delivers each one, signed, to every subscribed endpoint.",
				"org.opencontainers.image.version":     r.number(),
				"org.opencontainers.image.revision":    r.revision,
				"org.opencontainers.image.created":     created,
				"org.opencontainers.image.licenses":    "Apache-2.0",
				"org.opencontainers.image.source":      "https://github.com/postrider/postrider",
				"postrider.certificate-authorities":    roots,
			},
		},
		"rootfs": map[string]any{"type": "layers", "diff_ids": diffs},
		"history": []map[string]any{
			{"created": created, "created_by": "release: certificate authorities, user, folders"},
			{"created": created, "created_by": "release: program"},
		},
	}); err != nil {
		return err
	}
	layers := make([]descriptor, len(built.layers))
	for i, layer := range built.layers {
		layers[i] = describe(typeLayer, layer)
	}
	built.manifest, err = json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": typeManifest, "config": describe(typeConfig, built.config), "layers": layers,
	})
	return err
}

// writeLayout writes images as an OCI image layout in a tar. A single image also gets the file
// manifest.json, which docker load needs. Several images get an index, from which a runtime chooses
// by its architecture.
func (r *release) writeLayout(w io.Writer, images []*image) error {
	tag := imageName + ":" + r.number()
	files := []file{{name: "oci-layout", mode: 0o644, body: []byte(`{"imageLayoutVersion":"1.0.0"}`)}}
	known := map[string]bool{}
	add := func(mediaType string, body []byte) descriptor {
		d := describe(mediaType, body)
		if !known[d.Digest] { // two architectures share a layer, which is written once
			known[d.Digest] = true
			files = append(files, file{name: blobName(d.Digest), mode: 0o644, body: body})
		}
		return d
	}
	var manifests []descriptor
	for _, built := range images {
		add(typeConfig, built.config)
		for _, layer := range built.layers {
			add(typeLayer, layer)
		}
		d := add(typeManifest, built.manifest)
		d.Platform = &platform{built.arch, built.os}
		manifests = append(manifests, d)
	}
	top := manifests[0]
	if len(images) == 1 {
		listed, err := json.Marshal([]map[string]any{{
			"Config": blobName(digest(images[0].config)), "RepoTags": []string{tag}, "Layers": layerNames(images[0]),
		}})
		if err != nil {
			return err
		}
		files = append(files, file{name: "manifest.json", mode: 0o644, body: listed})
	} else {
		index, err := marshalIndex(manifests)
		if err != nil {
			return err
		}
		top = add(typeIndex, index)
	}
	top.Annotations = map[string]string{"org.opencontainers.image.ref.name": r.number(), "io.containerd.image.name": tag}
	index, err := marshalIndex([]descriptor{top})
	if err != nil {
		return err
	}
	packed, err := packTar("", append(files, file{name: "index.json", mode: 0o644, body: index}), r.time)
	if err != nil {
		return err
	}
	_, err = w.Write(packed)
	return err
}

func marshalIndex(manifests []descriptor) ([]byte, error) {
	return json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": typeIndex, "manifests": manifests})
}

func layerNames(built *image) (names []string) {
	for _, layer := range built.layers {
		names = append(names, blobName(digest(layer)))
	}
	return names
}

func describe(mediaType string, body []byte) descriptor {
	return descriptor{MediaType: mediaType, Digest: digest(body), Size: len(body)}
}

func digest(body []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(body)) }

// blobName returns the path in a layout of the blob with a digest.
func blobName(digest string) string { return "blobs/sha256/" + digest[len("sha256:"):] }
