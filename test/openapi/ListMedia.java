import org.openapitools.client.ApiClient;
import org.openapitools.client.api.StorageApi;
import org.openapitools.client.model.Media;

/** Lists the media of an organization with the generated client: `ListMedia BASE_URL ORGANIZATION`, token in TOKEN. */
public class ListMedia {
  public static void main(String[] args) throws Exception {
    ApiClient client = new ApiClient();
    client.setBasePath(args[0]);
    client.setBearerToken(System.getenv("TOKEN"));
    for (Media media : new StorageApi(client).listMedia(args[1], null, null, null, null).getData().getMedia()) {
      Long size = media.getFileSizeBytes();
      System.out.println(media.getMediaId() + " " + size + " " + media.getUploadStatus());
    }
  }
}
