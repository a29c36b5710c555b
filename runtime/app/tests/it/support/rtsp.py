"""A camera on the network: plays photographs over RTSP, with a microphone, until its standard input ends.

    PYTHON rtsp.py PORT ENCODING PHOTOGRAPH...

ENCODING is `jpeg` or `h264`. Prints its port once it listens (0 asks for any), or which of GStreamer's elements is
missing. The photographs are JPEG files of one size, five a second, over and over.
"""

import shutil
import sys
import tempfile
import threading
from pathlib import Path

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import GLib, Gst, GstRtspServer  # noqa: E402

ENCODINGS = {
    "jpeg": "jpegenc quality=90 ! rtpjpegpay",
    "h264": "openh264enc gop-size=5 bitrate=4000000 ! rtph264pay config-interval=-1",
}


def main() -> None:
    """Serves `/1` on this machine alone."""
    port, encoding, *photographs = sys.argv[1:]
    Gst.init(None)
    coded = ENCODINGS[encoding]
    elements = ["audiotestsrc", "mulawenc", "rtppcmupay", "jpegdec", *(part.split()[0] for part in coded.split(" ! "))]
    for element in elements:
        if Gst.ElementFactory.find(element) is None:
            sys.exit(f"GStreamer has no {element}")
    with tempfile.TemporaryDirectory() as folder:
        for number, photograph in enumerate(photographs):
            shutil.copy(photograph, Path(folder) / f"{number}.jpg")
        source = f"multifilesrc location={folder}/%d.jpg loop=true caps=image/jpeg,framerate=5/1"
        factory = GstRtspServer.RTSPMediaFactory()
        # The microphone comes first: a pipeline that takes any stream would take it.
        factory.set_launch(
            "( audiotestsrc is-live=true wave=silence ! mulawenc ! rtppcmupay name=pay0 pt=0 "
            f"{source} ! jpegdec ! videoconvert ! {coded} name=pay1 pt=96 )"
        )
        factory.set_shared(True)
        server = GstRtspServer.RTSPServer(address="127.0.0.1", service=port)
        server.get_mount_points().add_factory("/1", factory)
        if not server.attach(None):
            sys.exit("the port is taken")
        print(server.get_bound_port(), flush=True)
        loop = GLib.MainLoop()
        threading.Thread(target=lambda: (sys.stdin.read(), loop.quit()), daemon=True).start()
        loop.run()


main()
