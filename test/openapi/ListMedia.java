import org.openapitools.client.ApiClient;
import org.openapitools.client.api.StorageApi;
import org.openapitools.client.model.Media;
import org.openapitools.client.model.MediaMetadata;

/** Shows the media of an organization with the generated client: `ListMedia BASE_URL ORGANIZATION`, token in TOKEN. */
public class ListMedia {
  public static void main(String[] args) throws Exception {
    ApiClient client = new ApiClient();
    client.setBasePath(args[0]);
    client.setBearerToken(System.getenv("TOKEN"));
    StorageApi storage = new StorageApi(client);
    for (Media media : storage.listMedia(args[1], null, null, null, null, null).getData().getMedia()) {
      Long size = media.getFileSizeBytes();
      MediaMetadata metadata = storage.getMediaMetadata(args[1], media.getMediaId(), null).getData();
      System.out.println(
          media.getMediaId() + " " + size + " " + media.getUploadStatus() + " " + metadata.getConversion().getState());
    }
  }
}
